"""A workspace of made-up sweeps, for pictures: eight phones, three models, and a sweep that has not ended.

No figure in it was measured.
"""

import hashlib
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sweeps.device_facts import DeviceFacts, canonical_key
from sweeps.journal.journal import Journal
from sweeps.launching.live_report import WRITE_EVERY_S, LiveFile
from sweeps.manifest import FILE_NAME
from sweeps.records import Block, Conditions, Job
from sweeps.spec.label import label_of
from sweeps.variant import RunAxes, Variant
from sweeps.workspace import Workspace
from tests.sweeps.conftest import Records

PHONES = (
    ("Samsung", "Galaxy S24", "Snapdragon 8 Gen 3", 1.0),
    ("Google", "Pixel 8", "Tensor G3", 1.45),
    ("OnePlus", "12", "Snapdragon 8 Gen 3", 1.02),
    ("Nothing", "Phone (2)", "Snapdragon 8+ Gen 1", 1.3),
    ("Fairphone", "5", "QCM6490", 2.0),
    ("Xiaomi", "Redmi Note 12", "Snapdragon 685", 3.6),
    ("Motorola", "Moto G84", "Snapdragon 695", 2.9),
    ("Samsung", "Galaxy A54", "Exynos 1380", 2.4),
)
"""Maker, model, chip, and how many times as slow as the first phone."""
MODELS = {"mobilenet_v3_large": 4.0, "efficientnet_b0": 9.0, "resnet18": 21.0}
"""Milliseconds of the fastest build on the first phone, by model."""
ROUNDS, SAMPLES, BUILDS = 5, 60, 10
NIGHT = "night"
"""The name of the sweep that has not ended."""

records = Records()


def make(root: Path) -> Workspace:
    """Write the workspace into an empty folder."""
    workspace = Workspace.open(root)
    facts = [_facts(number) for number in range(len(PHONES))]
    with Journal.open(workspace.journal) as journal:
        for sweep, models, phones, done in (
            ("last-week", ["resnet18"], facts[:2], 1.0),
            ("release-candidate", list(MODELS), facts, 1.0),
            (NIGHT, ["mobilenet_v3_large"], facts[:5], 0.55),
        ):
            rng = random.Random(sweep)  # noqa: S311  # made-up figures
            jobs = [
                job for phone in phones for model in models for job in _jobs(phone, model, facts.index(phone), sweep)
            ]
            plan = records.plan(*jobs, name=sweep, rounds=ROUNDS, facts=tuple(phones), models=len(models))
            journal.save_plan(replace(plan, skipped=()))
            with journal.transaction():
                # Phones take turns, as in a sweep that runs.
                for _, job in sorted(enumerate(jobs), key=lambda numbered: numbered[0] % BUILDS):
                    if rng.random() < done:
                        _finish(journal, workspace, job, rng)
    return workspace


def _facts(number: int) -> DeviceFacts:
    maker, model, soc, _ = PHONES[number]
    return replace(
        records.facts,
        device_id=f"R5CT{number:02}{model[:2].upper()}",
        name=f"adb:R5CT{number:02}",
        maker=maker,
        model=model,
        soc=soc,
        abi="arm64-v8a",
        qengines=("qnnpack",),
    )


def _jobs(phone: DeviceFacts, model: str, number: int, sweep: str) -> list[Job]:
    int8 = {"precision": "int8", "quantization": "static_fx", "qengine": "qnnpack", "granularity": "per_tensor"}
    variants = []
    for layout in ("nchw", "nhwc"):
        for axes in ({}, {**int8, "interface": "core"}):
            for threads in (1, 4):
                variant = Variant(**axes, layout=layout, fuse=True, optimize=True)  # type: ignore[arg-type]
                variants.append((variant, threads))
    nnapi = {"backend": "nnapi", "capture": "mixed", "fuse": True, "preference": "sustained_speed", "layout": "nhwc"}
    variants.append((Variant(**nnapi, **int8, interface="full"), 1))  # type: ignore[arg-type]
    variants.append((Variant(**nnapi, relaxed_fp16=True), 1))  # type: ignore[arg-type]
    jobs = []
    for variant, threads in variants:
        threads_text = f"{threads} thread{'s' * (threads != 1)}"
        key = canonical_key({"sweep": sweep, "phone": number, "model": model, "variant": variant.axes(), "n": threads})
        build = canonical_key({"model": model, "variant": variant.axes()})
        jobs.append(
            records.job(
                number,
                key=key,
                build_key=build,
                name=f"{model} · {label_of(variant)} · {threads_text} · {phone.name}",
                model=model,
                variant=variant,
                run=RunAxes(threads=threads),
                device_id=phone.device_id,
            )
        )
    return jobs


def _finish(journal: Journal, workspace: Workspace, job: Job, rng: random.Random) -> None:
    number = next(number for number in range(len(PHONES)) if _facts(number).device_id == job.device_id)
    _, _, soc, slowness = PHONES[number]
    variant = job.variant
    # An accelerator is of use to some phones only, and one driver crashes.
    ms = MODELS[job.model] * slowness * {"fp32": 3.1, "int8": 1.25}[variant.precision]
    ms *= 1.0 if variant.layout == "nhwc" else 1.0 + 0.16 * math.sin(len(soc) * 7 + len(job.model)) + 0.08
    ms *= {1: 1.0, 4: 0.42}[job.run.threads]
    if variant.backend == "nnapi":
        ms *= {"Snapdragon 8 Gen 3": 0.16, "Tensor G3": 0.2, "Snapdragon 8+ Gen 1": 0.3}.get(soc, 0.9)
        if soc == "Exynos 1380" and variant.precision == "fp32":
            for _ in range(3):
                journal.attempts.add_failure(
                    job.key, records.failed(message="the driver ended the process by signal 11")
                )
            return
    drop = 0.05 if variant.precision == "fp32" else 0.45 if variant.backend == "cpu" else 0.9
    _build(journal, workspace, job)
    for round_ in range(ROUNDS):
        journal.attempts.add_block(_block(job, round_, ms * rng.uniform(0.988, 1.012), rng))
    journal.attempts.add_accuracy(
        records.accuracy(
            job,
            executor=_facts(number).fingerprint,
            top1_percent=74.0 - drop,
            reference_top1_percent=74.0,
            accuracy_drop_points=drop,
            accuracy_drop_low_points=drop - 0.3,
            accuracy_drop_high_points=drop + 0.3,
        )
    )


def _block(job: Job, round_: int, ms: float, rng: random.Random) -> Block:
    """Return a block whose samples have a tail, whose warm-ups become quicker, and whose phone becomes a little warmer
    in each round."""
    warm = 30.0 + 0.8 * round_ + rng.uniform(0.0, 0.4)
    return replace(
        records.block(job, round_),
        samples_ns=tuple(int(ms * 1e6 * (1 + abs(rng.gauss(0.0, 0.012)))) for _ in range(SAMPLES)),
        warmup_ns=tuple(int(ms * 1e6 * (1 + 1.5 / (1 + number))) for number in range(8)),
        first_inference_ns=int(ms * 4e6),
        backend_ran=job.variant.backend,
        engine_ran=job.variant.qengine,
        threads_ran=job.run.threads,
        conditions=Conditions(temp_start_c=round(warm, 1), temp_end_c=round(warm + 1.2, 1), gate="ready"),
        labels=(),
    )


@contextmanager
def running(workspace: Workspace) -> Iterator[None]:
    """Let the last sweep look in the block as if it had run for half an hour: one phone is measured, one waits until it
    is cooler, and one is away."""
    with Journal.open(workspace.journal, read_only=True) as journal:
        jobs = [job for job, _ in journal.jobs.of_sweep(NIGHT)]
        ended = journal.results.ended_counts(NIGHT).get(_facts(3).device_id, {})
        pending = sum(job.device_id == _facts(3).device_id for job in jobs) - sum(ended.values())
    first, third = (
        next(job for job in jobs if job.device_id == _facts(number).device_id and job.variant.precision == precision)
        for number, precision in ((0, "int8"), (2, "fp32"))
    )
    began_s = time.time() - 1800
    clock = [began_s]
    with workspace.lock(), LiveFile(workspace.live, NIGHT, lambda: clock[0]) as file:
        file.builds(BUILDS, BUILDS, ())
        file.measuring("adb:R5CT00", 0, 50, f"{first.name}, round 1", first.key)
        file.measuring("adb:R5CT02", 0, 50, f"{third.name}, round 1", third.key)
        file.measuring("adb:R5CT03", 12, 50, "")
        clock[0] = began_s + 1500
        file.away("adb:R5CT03", "it does not answer: unplugged?", pending)
        file.note("Nothing Phone (2): it does not answer, so its jobs wait for the next run")
        file.measuring("adb:R5CT00", 27, 50, f"{first.name}, round 3", first.key)
        file.measuring("adb:R5CT02", 30, 50, f"{third.name}, round 1", third.key)
        file.measuring("adb:R5CT01", 21, 50, "")
        clock[0] = began_s + 7200  # the pictures take a while, and a wait that was reported long ago is over
        file.waiting("adb:R5CT01", ("38.4 °C, until it has at most 35 °C",), 42.0)
        time.sleep(2 * WRITE_EVERY_S)
        yield


def _build(journal: Journal, workspace: Workspace, job: Job) -> None:
    folder = workspace.artifact(job.build_key)
    content = job.build_key.encode() * 64
    manifest = records.manifest(job).model_copy(
        update={
            "file_bytes": (21 if job.variant.precision == "fp32" else 6) * 1_000_000,
            "file_sha256": hashlib.sha256(content).hexdigest(),
        }
    )
    journal.artifacts.add(manifest)
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / manifest.file).write_bytes(content)
        (folder / FILE_NAME).write_text(manifest.model_dump_json())
