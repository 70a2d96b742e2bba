"""Profiles and captures of builds on a device, kept apart from all measurements."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.manifest import Manifest
from sweeps.results import ResultRow
from sweeps.stored_profiles import StoredProfile, place, store, store_trace
from sweeps.temporary import temporary_folder
from sweeps.variant import INSTALLED, RunAxes, Variant
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore
from workers.measure import device_capture as captures
from workers.measure.attach import Attached, attach, program_of_release, push_program
from workers.measure.device_capture import Capture
from workers.measure.processes import output_of, read
from workers.measure.run_request import run_request
from workers.measure.timed_block import START_DEADLINE_S
from workers.runtimes import operator_profile, registry
from workers.runtimes.interface import ProfilingRuntime, Program, RunReport, RunRequest
from workers.toolchains.environments import command_within

_DEADLINE_S = 600.0
_CAPTURED_SECONDS, _MOST_SECONDS = 2.0, 30.0
"""The least and the greatest time (s) of a captured block: a capture takes samples, and needs some time to have enough
of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """The result of one profiled or captured run of a job's build on a device."""

    profile: StoredProfile
    file: Path
    """The file with the trace, or with the recording of a capture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """A build on a device, and the request with which the job runs it."""

    row: ResultRow
    attached: Attached
    manifest: Manifest
    request: RunRequest

    def kept_profile(
        self, suffix: str, output: operator_profile.Profile | RunReport, iteration_ns: tuple[int, ...]
    ) -> StoredProfile:
        row, facts = self.row, self.attached.facts
        return StoredProfile(
            job=row.name,
            build_key=row.build_key,
            device=facts.name,
            device_id=facts.device_id,
            threads=row.threads,
            cpus=row.cpus,
            reuse_input=row.reuse_input,
            runner=output.runner,
            runtime=output.runtime_version,
            iterations=len(iteration_ns),
            profiled_iteration_p50_us=operator_profile.iteration_p50_us(iteration_ns),
            suffix=suffix,
        )


def profile(row: ResultRow, device: str, workspace: Workspace, *, iterations: int, warmup: int) -> Profiled:
    """Profile the build of `row` on the device that a sweep file names `device`, and store the document and a trace.

    Raises `EdgeSweepError`, which says why the device, the runner or the store could not do it.
    """
    runtime = registry.get(row.runtime)
    if not isinstance(runtime, ProfilingRuntime):
        raise EdgeSweepError(f"{row.runtime} has no profiler", "profile a build of another runtime")
    with _ready(row, device, workspace) as ready:
        variant = ready.manifest.axes
        program = _profiler(runtime, ready.attached, variant)
        argv = runtime.profile_command(ready.request, iterations, warmup, program)
        argv = argv if program else command_within(argv, variant.runner_toolchain)
        _, result = output_of(ready.attached.device, argv, runtime.parse_profile, START_DEADLINE_S + _DEADLINE_S)
    document = ready.kept_profile("trace.json", result, result.iteration_ns)
    document = document.model_copy(update={"operators": operator_profile.kept_operators(result)})
    trace = store_trace(workspace, document, result.trace(f"{row.name} on {document.device}"))
    return Profiled(profile=document, file=trace)


def captured(
    row: ResultRow,
    device: str,
    workspace: Workspace,
    capture: Capture,
    own: Path | None,
    *,
    iterations: int,
    warmup: int,
) -> Profiled:
    """Run one block of the build of `row` while a capture records it, and store the recording.

    `own`: the capture's program on this host, used instead of the device's. Raises `EdgeSweepError`.
    """
    with _ready(row, device, workspace) as ready:
        attached = ready.attached
        if not attached.programs:
            raise EdgeSweepError(
                f"captures are taken on phones and boards, not on {device}",
                "this computer's own tools are perf and top",
            )
        program = _runner(attached, ready.manifest.axes)
        if program is None or program.tool is not None:
            raise EdgeSweepError(
                f"{attached.facts.name} has no runner of EdgeSweep for {ready.manifest.axes.format} files",
                "edgesweep explain android-runtime says how to compile one",
            )
        recorder = captures.prepared(attached.device, capture, own)
        request = replace(
            ready.request,
            iterations=iterations,
            warmup_iterations=warmup,
            min_seconds=_CAPTURED_SECONDS,
            max_seconds=_MOST_SECONDS,
        )
        runtime = registry.get(row.runtime)
        argv = runtime.command(request, program.path)
        deadline_s = START_DEADLINE_S + 3 * _MOST_SECONDS
        try:
            with temporary_folder(workspace.temporary) as folder:
                recording = folder / capture.suffix
                completed = captures.run(attached.device, capture, recorder, argv, deadline_s, recording)
                report = read(completed, runtime.parse)
                document = ready.kept_profile(capture.suffix, report, report.samples_ns)
                document = document.model_copy(update={"capture": capture.name})
                file = place(workspace, document)
                recording.replace(file)
        except OSError as error:
            raise StoreError(
                f"a recording cannot be kept in {workspace.root}: {error.strerror}", "make room there"
            ) from error
    store(workspace, document)
    return Profiled(profile=document, file=file)


def _runner(attached: Attached, variant: Variant) -> Program | None:
    if variant.runner_toolchain != INSTALLED:
        return program_of_release(attached.device, attached.facts, variant)
    return attached.programs.get((variant.runtime, variant.format))


@contextmanager
def _ready(row: ResultRow, device: str, workspace: Workspace) -> Iterator[_Ready]:
    """Yield a locked device with the build on it, after ending programs of an earlier run."""
    manifest = ArtifactStore(workspace.artifacts).find(row.build_key)
    if manifest is None:
        raise StoreError(
            f"the build of {row.name} is not in this workspace", "run the sweep again: it rebuilds the file"
        )
    attached = attach(device, workspace.root, [row.runtime])
    try:
        attached.device.end_orphans()
        model = attached.device.push(
            workspace.artifact(row.build_key) / manifest.file,
            f"{row.build_key[:16]}-{manifest.file}",
            sha256=manifest.file_sha256,
        )
        run = RunAxes(threads=row.threads, cpus=row.cpus, reuse_input=row.reuse_input)
        request = run_request(manifest.axes, run, manifest, model)
        yield _Ready(row=row, attached=attached, manifest=manifest, request=request)
    finally:
        attached.device.release()


def _profiler(runtime: ProfilingRuntime, attached: Attached, variant: Variant) -> str | None:
    """Return the profiler's path on the device; `None` if the device runs this host's Python."""
    if not attached.programs:
        return None
    if variant.runner_toolchain != INSTALLED:
        # A release's runner is its profiler.
        return program_of_release(attached.device, attached.facts, variant).path
    format = variant.format
    profilers = runtime.profilers(attached.facts)
    if format not in profilers:
        raise EdgeSweepError(
            f"{attached.facts.name} gets no program that profiles files of the format {format!r}",
            "see the page android-runtime on how to compile it: edgesweep explain android-runtime",
        )
    return push_program(attached.device, profilers[format])
