"""Asks phones which accelerators their NNAPI has, and which operators of a model each accelerator accepts. Measures
nothing.

One NNAPI artifact of each model and precision is enough: an existing one of the workspace, otherwise a new build.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeps.device_facts import DeviceFacts
from sweeps.errors import BuildError, DeviceError, RunnerError, SpecError
from sweeps.manifest import Manifest
from sweeps.nnapi_answers import Accelerator, Answer
from sweeps.planning.plan import Plan
from sweeps.records import Failed, Job, Skipped
from sweeps.spec import catalog
from sweeps.spec.label import label_of
from sweeps.spec.model_inputs import ModelSpec
from sweeps.spec.sweep import SweepSpec
from workers.artifacts import ArtifactStore
from workers.devices.interface import Device
from workers.devices.local import LocalDevice, from_os_error
from workers.driver.driver_events import AttemptFailed, Building, Preparing
from workers.executors.interface import BuildRequest, Executor
from workers.measure.attach import Attached, attach
from workers.models.prepared_model import PreparedModel
from workers.runtimes import registry
from workers.runtimes.torchscript import native_runner, runner_report
from workers.runtimes.torchscript.nnapi.nnapi_devices import NnapiListing

_DEADLINE_S = 120.0


def of_accelerators(spec: SweepSpec) -> SweepSpec:
    """Return the sweep with only its variants for accelerators: those of NNAPI. Raises `SpecError` if it has none."""
    grids = []
    for grid in spec.grids:
        runtimes = tuple(
            name for name in grid.runtime if any(backend in grid.backend for backend in _with_accelerators([name]))
        )
        backends = tuple(name for name in grid.backend if name in _with_accelerators(runtimes))
        if backends:
            grids.append(grid.model_copy(update={"runtime": runtimes, "backend": backends}))
    if not grids:
        names = _with_accelerators(name for grid in spec.grids for name in grid.runtime) or _with_accelerators(
            catalog.runtimes()
        )
        raise SpecError(
            f"{spec.name}: no grid has the backend {' or '.join(names)}",
            f"write backend: [{names[0]}] into one of its grids",
        )
    return spec.model_copy(update={"grids": tuple(grids)})


def _with_accelerators(runtimes: Iterable[str]) -> list[str]:
    """Return the backends of these runtimes that list accelerators, each once."""
    offered = (backend for name in runtimes for backend in catalog.runtimes()[name].backends)
    return list(dict.fromkeys(backend.name for backend in offered if backend.lists_accelerators))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One question: which accelerators of one device accept the operators of one model in one precision."""

    facts: DeviceFacts
    model: str
    precision: str
    job: Job | None
    """The job with the artifact that is sent to the device; `None` if nothing is built for this device."""
    reason: str
    """The reason why nothing is built; empty if something is."""


class Inquiry:
    """The questions of one plan (one for a sweep of `of_accelerators`), and their answers: first run `build` to its
    end, then `answers`."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._folder = folder
        self._store = ArtifactStore(folder / "artifacts")
        self._questions = [question for facts in plan.devices for question in self._questions_of(facts)]
        self._failures: dict[str, Failed] = {}

    def pending(self) -> int:
        """Return the number of builds that are still missing."""
        return len(self._missing())

    def build(
        self, executor: Executor, prepare: Callable[[ModelSpec], PreparedModel], stop: Callable[[], bool]
    ) -> Iterator[Preparing | Building | AttemptFailed]:
        """Build the artifacts that are not in the workspace yet. Raises what `prepare` raises."""
        missing = self._missing()
        done = 0
        for model in self._plan.sweep.models:
            jobs = {key: job for key, job in missing.items() if job.model == model.name}
            if not jobs or stop():
                continue
            yield Preparing(model.name)
            inputs = prepare(model).build_inputs
            requests = [BuildRequest(key, job.variant, inputs) for key, job in jobs.items()]
            for request, outcome in executor.build(requests, stop):
                name = jobs[request.build_key].name
                if outcome is None:
                    yield Building(done, len(missing), (name,))
                    continue
                done += 1
                if isinstance(outcome, Failed):
                    self._failures[request.build_key] = outcome
                    yield AttemptFailed(name, outcome, final=True)
                else:
                    self._store.unpack(outcome)
                yield Building(done, len(missing), ())

    def answers(self) -> Iterator[Answer]:
        """Yield one answer per device, model and precision. If a device cannot be asked, its answers say why, and the
        next device follows."""
        for facts in self._plan.devices:
            questions = [question for question in self._questions if question.facts == facts]
            if all(question.job is None for question in questions):
                yield from (_answer(question, note=question.reason) for question in questions)
                continue
            try:
                attached = attach(facts.name, self._folder, dict(facts.runners))
            except DeviceError as error:
                yield from (_answer(question, note=error.message) for question in questions)
                continue
            try:
                yield from (self._ask(attached, question) for question in questions)
            finally:
                attached.device.release()

    def _missing(self) -> dict[str, Job]:
        """Return the jobs whose builds are not in the workspace, by build key."""
        jobs = [question.job for question in self._questions if question.job is not None]
        return {job.build_key: job for job in jobs if self._store.find(job.build_key) is None}

    def _questions_of(self, facts: DeviceFacts) -> Iterator[_Question]:
        jobs = [job for job in self._plan.jobs if job.device_id == facts.device_id]
        skipped = [skip for skip in self._plan.skipped if skip.device_id == facts.device_id]
        planned: list[Job | Skipped] = [*jobs, *skipped]
        for model, precision in sorted({(entry.model, entry.variant.precision) for entry in planned}):
            fitting = [job for job in jobs if (job.model, job.variant.precision) == (model, precision)]
            # Existing builds come first; else the plan's order holds.
            fitting.sort(key=lambda job: self._store.look(job.build_key) is None)
            why = [skip.reason for skip in skipped if (skip.model, skip.variant.precision) == (model, precision)]
            yield _Question(
                facts=facts,
                model=model,
                precision=precision,
                job=fitting[0] if fitting else None,
                reason="" if fitting else "; ".join(dict.fromkeys(why)),
            )

    def _ask(self, attached: Attached, question: _Question) -> Answer:
        job = question.job
        if job is None:
            return _answer(question, note=question.reason)
        if job.build_key in self._failures:
            failed = self._failures[job.build_key]
            return _answer(question, note=f"its build failed ({failed.kind}): {failed.message}")
        manifest = self._store.find(job.build_key)
        if manifest is None:
            return _answer(question, note="it was stopped before its build")
        try:
            return _answer(question, self._on_device(attached, job, manifest))
        except DeviceError as error:
            if error.kind != "backend_missing":
                return _answer(question, note=f"{error.kind}: {error.message}")
        missing = "no NNAPI here"
        if not job.emulated:
            return _answer(question, note=missing)
        try:
            return _answer(question, self._by_reference(job, manifest), note=missing, reference=job.reference)
        except (BuildError, DeviceError) as error:
            return _answer(question, note=f"{missing}; the reference library does not answer either: {error.message}")

    def _on_device(self, attached: Attached, job: Job, manifest: Manifest) -> NnapiListing:
        """Return the answer of the device. Raises `DeviceError`: of the kind `backend_missing` if the device has no
        NNAPI."""
        program = attached.programs.get((job.variant.runtime, job.variant.format))
        if program is None:
            raise RunnerError("backend_missing", f"{attached.facts.name} is this computer")
        if program.tool is not None:
            raise RunnerError("not_told", f"{Path(program.path).name} cannot be asked; the device runner can")
        model = self._store.model(manifest)
        path = attached.device.push(model, f"{job.build_key[:16]}-{manifest.file}")
        return _listing(attached.device, program.path, path, job, manifest)

    def _by_reference(self, job: Job, manifest: Manifest) -> NnapiListing:
        """Return the operators that the library which stands in for NNAPI accepts, on this host. Raises `BuildError`,
        `DeviceError`."""
        model = self._store.model(manifest)
        library = registry.get(job.variant.runtime).reference(job.variant.backend, model.parent)
        host = LocalDevice(self._folder / "references")
        return _listing(host, str(native_runner.program()), str(model), job, manifest, "--reference", library)


def _listing(device: Device, program: str, model: str, job: Job, manifest: Manifest, *words: str) -> NnapiListing:
    argv = [program, "--nnapi-devices", "--model", model, *words]
    if job.variant.flexible_batch:
        argv += ["--input-dims", ",".join(map(str, manifest.input.shape))]
    try:
        completed = device.run(argv, _DEADLINE_S)
    except OSError as error:
        raise from_os_error(error) from error
    try:
        return runner_report.listing(completed.stdout)
    except RunnerError as error:
        if completed.exit_code != 0 and error.kind in ("no_report", "truncated"):
            raise RunnerError("crashed", f"the runner ended with exit code {completed.exit_code}") from error
        raise


def _answer(question: _Question, listing: NnapiListing | None = None, *, note: str = "", reference: str = "") -> Answer:
    facts, job = question.facts, question.job
    return Answer(
        phone=facts.name,
        device=facts.device_class,
        device_id=facts.device_id,
        model=question.model,
        precision=question.precision,
        variant=label_of(job.variant) if job is not None and listing is not None else "",
        operations=(listing.operations or ()) if listing is not None else (),
        accelerators=()
        if listing is None
        else tuple(
            Accelerator(
                name=device.name,
                type=device.type,
                version=device.version,
                feature_level=device.feature_level,
                accepts=device.accepts or (),
            )
            for device in listing.devices
        ),
        reference=reference,
        note=note,
    )
