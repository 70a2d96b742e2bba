"""Whole records to store and rank, as the driver makes them."""

from dataclasses import replace

import pytest

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.manifest import Manifest, TensorSpec, Verification
from sweeps.planning.keys import ModelIdentity
from sweeps.planning.plan import Plan
from sweeps.records import Accuracy, Block, Conditions, Failed, Job, Skipped
from sweeps.results import ResultRow
from sweeps.spec.grid import GridSpec
from sweeps.spec.label import label_of
from sweeps.spec.model_inputs import DataSpec, ModelSpec, SyntheticData
from sweeps.spec.protocol import ProtocolSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.variant import RunAxes, Variant
from tests.builders import computer_facts, identities_of

EVALUATION_ID = "e" * 64


class Records:
    """Records that belong together: `job(n)` has the build key of `manifest(n)`, runs on `facts`, and so on."""

    evaluation_id = EVALUATION_ID
    facts = computer_facts(device_id="local-1", model="Board's 3", soc="SoC <b>", os_build="linux 6")

    def job(self, number: int, **changes: object) -> Job:
        variant = Variant(precision="int8", qengine="x86", fuse=True) if number % 2 else Variant()
        default = Job(
            key=canonical_key({"job": number}),
            build_key=canonical_key({"build": number}),
            name=f"net job {number}",
            model="net",
            grid="",
            variant=variant,
            run=RunAxes(threads=number + 1),
            device_id=self.facts.device_id,
        )
        return replace(default, **changes)

    def checked_job(self, number: int, reference: str = "reference:nnapi@1") -> Job:
        """A job that the host only checks."""
        variant = Variant(backend="nnapi", capture="mixed", fuse=True, preference="sustained_speed")
        return self.job(number, name=f"net checked {number}", variant=variant, run=RunAxes(), reference=reference)

    def skipped(self, reason: str = "no effect") -> Skipped:
        return Skipped(
            name="net skipped",
            model="net",
            grid="",
            variant=Variant(layout="nhwc"),
            run=RunAxes(),
            device_id=self.facts.device_id,
            kind="no_effect",
            reason=reason,
        )

    def plan(
        self,
        *jobs: Job,
        skipped: tuple[Skipped, ...] = (),
        name: str = "phones",
        rounds: int = 2,
        evaluation_id: str = EVALUATION_ID,
        facts: tuple[DeviceFacts, ...] | None = None,
        models: int = 1,
    ) -> Plan:
        spec = SweepSpec(
            name=name,
            models=tuple(
                ModelSpec(name=f"net{'' if n == 0 else n}", source="mobilenet_v2", weights="random")
                for n in range(models)
            ),
            data=DataSpec(calibration=SyntheticData(source="synthetic"), evaluation=SyntheticData(source="synthetic")),
            grids=(GridSpec(),),
            protocol=ProtocolSpec(preset="quick", rounds=rounds),
        )
        net = ModelIdentity(source="torchvision:mobilenet_v2", weights_id="random:0")
        identities = identities_of({"net": net}, evaluation_id=evaluation_id)
        return Plan(
            sweep=spec,
            devices=(self.facts,) if facts is None else facts,
            identities=identities,
            jobs=jobs,
            skipped=skipped,
        )

    def block(self, job: Job, round_: int, ms: float = 5.0, samples: int = 100, **changes: object) -> Block:
        default = Block(
            job_key=job.key,
            round=round_,
            samples_ns=tuple(int(ms * 1e6) + 1000 * (index % 7) for index in range(samples)),
            warmup_ns=(9_000_000,),
            first_inference_ns=50_000_000,
            load_ns=20_000_000,
            rss_before_load_bytes=400_000_000,
            rss_peak_bytes=450_000_000,
            backend_ran="cpu",
            engine_ran="x86",
            threads_ran=1,
            runner="python-torchscript 1",
            runtime_version="2.12.1",
            artifact_sha256="a" * 64,
            exit_code=0,
            conditions=Conditions(temp_start_c=40.5, load_start=0.01),
            labels=("ungated",),
        )
        return replace(default, **changes)

    def accuracy(self, job: Job, **changes: object) -> Accuracy:
        default = Accuracy(
            build_key=job.build_key,
            evaluation_id=EVALUATION_ID,
            engine=job.variant.qengine,
            executor=job.reference or self.facts.fingerprint,
            images=597,
            top1_percent=97.5,
            top5_percent=99.5,
            reference_top1_percent=98.0,
            agreement_percent=99.0,
            sqnr_db=None,
            accuracy_drop_points=0.5,
            accuracy_drop_low_points=-0.1,
            accuracy_drop_high_points=1.1,
        )
        return replace(default, **changes)

    def failed(self, stage: str = "run", message: str = "signal 11") -> Failed:
        return Failed(stage=stage, kind="crashed", message=message)

    def manifest(self, job: Job, **changes: object) -> Manifest:
        tensor = TensorSpec(shape=(1, 3, 224, 224), dtype="float32")
        default = Manifest(
            build_key=job.build_key,
            model="net",
            model_source="torchvision:mobilenet_v2",
            weights_id="random:0",
            runtime="torchscript",
            backend=job.variant.backend,
            variant=job.variant.axes(),
            file="model.pt",
            file_bytes=3_500_000,
            file_sha256="f" * 64,
            memory_format="contiguous_format",
            input=tensor,
            output=tensor,
            fused=("a + b",),
            operators=("aten::conv2d",),
            file_version=3,
            bytecode_version=None,
            calibration_id=None,
            versions={"torch": "2.12.1"},
            verification=Verification(
                images=8, engine="x86", sqnr_db=None, top1_percent=None, reference_top1_percent=None
            ),
        )
        return default.model_copy(update=changes)

    def row(self, job: Job, ms: float | None = 10.0, **changes: object) -> ResultRow:
        """A row as the store gives it back: timed in three rounds, or (`ms` is `None`) only checked."""
        timing = {} if ms is None else {"latency_p50_ms": ms, "latency_ci_low_ms": ms, "latency_ci_high_ms": ms}
        accuracy = self.accuracy(job)
        default = ResultRow(
            sweep="s",
            job_key=job.key,
            build_key=job.build_key,
            name=f"net · {label_of(job.variant)}",
            model="net",
            grid="",
            device_id=job.device_id,
            device="Maker Phone (SoC)",
            fingerprint=self.facts.fingerprint,
            variant=label_of(job.variant),
            **job.variant.axes(),  # type: ignore[arg-type]  # each axis has its type
            threads=job.run.threads,
            cpus=job.run.cpus,
            reuse_input=job.run.reuse_input,
            outcome="measured",
            preset="quick",
            exec_context="shell",
            runtime_version="2.12.1",
            executor=accuracy.executor,
            emulated=accuracy.emulated,
            block_medians_ms=() if ms is None else tuple((round_, ms) for round_ in range(3)),
            rounds=0 if ms is None else 3,
            metrics=timing
            | {
                "artifact_mb": 3.5,
                "top1_percent": 97.5,
                "agreement_percent": 99.0,
                "sqnr_db": 61.52,
                "accuracy_drop_points": 0.5,
                "accuracy_drop_low_points": -0.1,
                "accuracy_drop_high_points": 1.1,
            },
        )
        return replace(default, **changes)


@pytest.fixture(scope="session")
def records() -> Records:
    return Records()
