"""Runs a build on a device with its runtime's profiler, and keeps what it told apart from all measurements."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.results import ResultRow
from sweeps.variant import INSTALLED, RunAxes, Variant
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore
from workers.measure.attach import Attached, attach, program_of_release, push_program
from workers.measure.processes import told
from workers.measure.requests import START_DEADLINE_S, run_request
from workers.runtimes import profiles, registry
from workers.runtimes.interface import ProfilingRuntime
from workers.toolchains.environments import command_within

_DEADLINE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """A profile of one job's build on one device."""

    profile: profiles.Profile
    document: dict[str, Any]
    trace: Path


def profile(row: ResultRow, device: str, workspace: Workspace, *, iterations: int, warmup: int) -> Profiled:
    """Profile the build of `row` on the device that a sweep file calls `device`, and write document and trace.

    Raises `EdgeSweepError`: the device, the runner or the store says why it cannot be.
    """
    manifest = ArtifactStore(workspace.artifacts).find(row.build_key)
    if manifest is None:
        raise StoreError(
            f"the build of {row.name} is not in this workspace", "run the sweep again: it rebuilds the file"
        )
    runtime = registry.get(row.runtime)
    if not isinstance(runtime, ProfilingRuntime):
        raise EdgeSweepError(f"{row.runtime} has no profiler", "profile a build of another runtime")
    attached = attach(device, workspace.root, [row.runtime])
    try:
        program = _program(runtime, attached, manifest.axes)
        model = attached.device.push(
            workspace.artifact(row.build_key) / manifest.file,
            f"{row.build_key[:16]}-{manifest.file}",
            sha256=manifest.file_sha256,
        )
        run = RunAxes(threads=row.threads, cpus=row.cpus, reuse_input=row.reuse_input)
        request = run_request(manifest.axes, run, manifest, model)
        argv = runtime.profile_command(request, iterations, warmup, program)
        argv = argv if program else command_within(argv, manifest.axes.runner_toolchain)
        _, found = told(attached.device, argv, runtime.parse_profile, START_DEADLINE_S + _DEADLINE_S)
    finally:
        attached.device.release()
    facts = attached.facts
    of = {"job": row.name, "build_key": row.build_key, "device": facts.name, "device_id": facts.device_id}
    document = profiles.document(found, of)
    folder = workspace.root / "profiles"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{row.name}-{facts.device_id}-{row.build_key[:8]}")[:120]
    trace = folder / f"{name}.trace.json"
    try:
        folder.mkdir(exist_ok=True)
        trace.write_text(json.dumps(found.trace(f"{row.name} on {facts.name}")) + "\n", encoding="utf-8")
        (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}", "make room there") from error
    return Profiled(profile=found, document=document, trace=trace)


def _program(runtime: ProfilingRuntime, attached: Attached, variant: Variant) -> str | None:
    """Its path on the device; `None` where this host's Python is the device's too."""
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
