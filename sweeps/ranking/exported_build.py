"""The export of a ranked build out of the workspace: the file to ship, and a manifest with its expected figures."""

import hashlib
import json
import re
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.manifest import FILE_NAME, Manifest
from sweeps.metrics import METRICS
from sweeps.protocol.presets import DEFAULT_GATE, PRESETS, Protocol
from sweeps.protocol.sessions import run_of
from sweeps.ranking.comparison_input import Result, SessionConditions, origins
from sweeps.ranking.eligibility import reference_name
from sweeps.ranking.export_choice import choose
from sweeps.ranking.values import Ranking
from sweeps.results import read_rows
from sweeps.spec import catalog
from sweeps.spec.label import label_of
from sweeps.variant import Variant
from sweeps.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

_Milliseconds = Annotated[float, Field(ge=1e-6, le=1e9)]


class GateLimits(BaseModel):
    """The gate limits on which a measurement depends: `Gate.comparable`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_battery_temp_c: float = Field(ge=0, le=60)
    max_cpu_temp_c: float = Field(ge=0, le=110)
    max_thermal_status: int = Field(ge=0, le=6)


class BlockProtocol(BaseModel):
    """The protocol of one block: `Protocol.comparable`. The bounds of the fields are those of a sweep file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Literal["quick", "full", "race", "recipe"]
    warmup_iterations: int = Field(ge=0, le=1_000_000)
    warmup_seconds: float = Field(ge=0, le=3600)
    iterations: int = Field(ge=1, le=10_000_000)
    min_seconds: float = Field(ge=0, le=3600)
    max_seconds: float = Field(gt=0, le=3600)
    gate: GateLimits | None
    fixed_performance: bool

    def resolve(self) -> Protocol:
        """Return the protocol that measures under the same conditions again. Waiting times come from the preset."""
        preset = PRESETS[self.preset]
        gate = None if self.gate is None else replace(preset.gate or DEFAULT_GATE, **self.gate.model_dump())
        return replace(preset, **self.model_dump(exclude={"gate"}), gate=gate)


class Expected(BaseModel):
    """The expected figures of a build, and the conditions under which they were measured. A later check must have the
    same conditions to be comparable.

    If it is not `timed`, a host only checked it with a reference implementation: it has an accuracy, but no conditions
    of a measurement.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sweep: str
    job: str
    job_key: str
    timed: bool
    executor: str
    """The executor that computed the accuracy: the device's fingerprint, or `reference:<backend>@<version>`."""
    device: str
    device_id: str
    device_fingerprint: str
    preset: str
    rounds: int = Field(ge=0)
    threads: int
    cpus: str
    reuse_input: bool
    runner: str
    runtime_version: str
    exec_context: str
    grid: str = ""
    gate: str = ""
    """`gated` or `none`."""
    fixed_performance: str = ""
    """`on`, `off`, or empty if the device has no such mode."""
    protocol: BlockProtocol | None = None
    block_medians_ms: tuple[_Milliseconds, ...] = ()
    """The medians of the blocks, in order of rounds. Manifests of older versions have neither this nor the protocol."""
    block_runs: tuple[int, ...] = ()
    """The driver's run (`Block.session`) of each block; empty in manifests of older versions."""
    sessions: tuple[int, ...] = ()
    """The starts of sessions, as `ResultRow.sessions`; blocks whose session is not known count as one session."""
    verdict: str
    trust: tuple[str, ...]
    figures: dict[str, float]
    """The figures of every known metric by its name in `sweeps.metrics`, unit in the name."""

    @property
    def in_batches(self) -> bool:
        """Tell whether only batches timed the build; false for a build that only a reference implementation checked."""
        return not self.timed and not self.executor.startswith("reference:")


class Shipped(BaseModel):
    """The content of `manifest.json` next to an exported artifact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1, 2] = 2
    artifact: Manifest
    expected: Expected

    def comparable(self, path: Path) -> Result:
        """Return the measured result, for a comparison. Raises `EdgeSweepError` if the manifest lacks a needed
        field."""
        expected = self.expected
        if expected.in_batches:
            raise EdgeSweepError(
                f"{path} holds no time: {expected.job} was measured in batches only, which give ratios",
                "measure it in processes of its own (edgesweep run SWEEP.yaml --settle 3), and export it again",
            )
        if not expected.timed:
            raise EdgeSweepError(
                f"{path} holds no time: {expected.job} was only checked by {reference_name(expected.executor)}",
                "measure it on a device that has its backend",
            )
        if expected.protocol is None or not expected.block_medians_ms:
            raise EdgeSweepError(
                f"{path} does not say how its figures were measured: an older EdgeSweep wrote it",
                "export it again: edgesweep export",
            )
        return Result(
            name=expected.job,
            model=self.artifact.model,
            setup=(
                label_of(self.artifact.axes),
                expected.grid,
                str(expected.threads),
                expected.cpus,
                str(expected.reuse_input),
            ),
            device=expected.device,
            device_id=expected.device_id,
            fingerprint=expected.device_fingerprint,
            conditions=SessionConditions(
                preset=expected.preset,
                runtime_version=expected.runtime_version,
                runner=expected.runner,
                exec_context=expected.exec_context,
                gate=expected.gate,
                fixed_performance=expected.fixed_performance,
                protocol=expected.protocol.model_dump_json(),
            ),
            medians_ms=expected.block_medians_ms,
            origins=origins(expected.block_runs, expected.sessions, expected.sweep),
            trust=expected.trust,
            release=self.artifact.axes.runner_toolchain,
        )


def read_shipped(path: Path) -> Shipped:
    """Read an exported manifest. The file is not trusted: paths and keys in it are checked before use.

    Raises `EdgeSweepError`.
    """
    try:
        shipped = Shipped.model_validate_json(path.read_bytes())
        artifact = shipped.artifact
        known = {field.name for field in fields(Variant)}
        runs, medians = shipped.expected.block_runs, shipped.expected.block_medians_ms
        if runs and medians and len(runs) != len(medians):
            raise ValueError("it has another number of runs than of block medians")
        if unknown := artifact.variant.keys() - known:
            raise ValueError(f"unknown axes: {', '.join(sorted(unknown))[:200]}")
        TypeAdapter(Variant).validate_json(json.dumps(artifact.variant), strict=True)
        for text, pattern in (
            (artifact.build_key, r"[0-9a-f]{64}"),
            (artifact.file_sha256, r"[0-9a-f]{64}"),
            (artifact.file, r"[A-Za-z0-9_][A-Za-z0-9._-]*"),
        ):
            if not re.fullmatch(pattern, text):
                raise ValueError(f"{text[:80]!r} cannot be in a manifest")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'the whole file'}: {first['msg']}"
        raise EdgeSweepError(
            f"{path} cannot be read as an exported manifest: {reason}",
            "give the manifest.json that `edgesweep export` wrote",
        ) from error
    return shipped


def export_candidate(
    ranking: Ranking, frame: "pd.DataFrame", workspace: Workspace, *, model: str | None, job: str | None, output: Path
) -> Shipped:
    """Copy the winner to `output`, with its manifest; or the job named `job`, which may be one that was only checked.
    Return the manifest.

    Raises `EdgeSweepError` if several jobs are possible, or there is no winner.
    """
    device, candidate = choose(ranking, model, job)
    row = next(row for row in read_rows(frame, ranking.sweep) if row.job_key == candidate.job_key)
    source = workspace.artifact(candidate.build_key)
    manifest = checked(source, candidate.name)
    # If units share the work, the figures are those of the unit that measured the build, to match the exported blocks.
    figures = row.figures if row.link else candidate.figures
    shipped = Shipped(
        artifact=manifest.model_copy(update={"eval": None}),  # The evaluation file stays in the workspace.
        expected=Expected(
            sweep=ranking.sweep,
            job=candidate.name,
            job_key=candidate.job_key,
            timed=candidate.timed,
            executor=candidate.executor,
            device=device.device,
            device_id=row.device_id,
            device_fingerprint=device.fingerprint,
            **asdict(row.conditions),
            rounds=row.rounds,
            threads=row.threads,
            cpus=row.cpus,
            reuse_input=row.reuse_input,
            runner=row.runner,
            grid=row.grid,
            protocol=BlockProtocol(**json.loads(row.protocol)) if row.protocol and candidate.timed else None,
            block_medians_ms=tuple(row.published_medians_ms.values()),
            block_runs=tuple(map(run_of, row.published_medians_ms)),
            sessions=row.sessions,
            verdict=candidate.verdict,
            trust=candidate.trust,
            figures={name: value for name in METRICS if (value := figures.get(name)) is not None},
        ),
    )
    try:
        output.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / manifest.file, output / manifest.file)
        (output / FILE_NAME).write_text(shipped.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{output} cannot be written: {error.strerror}", "give another folder with --output"
        ) from error
    return shipped


def checked(source: Path, name: str) -> Manifest:
    """Return the manifest of a build in the workspace's folder `source`, if its file is undamaged and may be shipped.

    `name`: the name of the build in errors. Raises `EdgeSweepError`.
    """
    manifest = Manifest.read(source)
    if reason := catalog.unshippable(manifest.runtime):
        raise EdgeSweepError(f"{name} cannot be shipped: {reason}", "export another")
    try:
        digest = hashlib.sha256((source / manifest.file).read_bytes()).hexdigest()
    except OSError:
        digest = ""
    if digest != manifest.file_sha256:
        raise StoreError(f"{source / manifest.file} is missing or damaged", "run the sweep again: it rebuilds the file")
    return manifest
