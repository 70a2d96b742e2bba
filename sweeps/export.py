"""Takes a ranked build out of the workspace: the file to ship, and beside it what to expect of it."""

import hashlib
import shutil
from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ConfigDict

from sweeps.errors import EdgeSweepError, StoreError
from sweeps.manifest import FILE_NAME, Manifest
from sweeps.metrics import METRICS
from sweeps.rank import Candidate, DeviceRanking, Ranking
from sweeps.verdict import UNSHIPPABLE
from sweeps.workspace import Workspace


class Expected(BaseModel):
    """What was measured, and under which conditions: a later check has to meet these to compare.

    Where it is not `timed`, a host checked it by a reference implementation: it has an accuracy, and no conditions of a
    measurement.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sweep: str
    job: str
    job_key: str
    timed: bool
    executor: str
    """What computed the accuracy: the device's fingerprint, or `reference:<backend>@<version>`."""
    device: str
    device_id: str
    device_fingerprint: str
    preset: str
    rounds: int
    threads: int
    cpus: str
    reuse_input: bool
    runner: str
    runtime_version: str
    exec_context: str
    verdict: str
    trust: tuple[str, ...]
    figures: dict[str, float]
    """Every known metric by its name in `sweeps.metrics`, unit in the name."""


class Shipped(BaseModel):
    """`manifest.json` beside an exported artifact."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    artifact: Manifest
    expected: Expected


def export_candidate(
    ranking: Ranking, frame: pd.DataFrame, workspace: Workspace, *, model: str | None, job: str | None, output: Path
) -> Shipped:
    """Copy the winner (or the job that is named, also one that was only checked) to `output`, with its manifest.

    Raises `EdgeSweepError` where it is not clear which one is meant, or there is no winner.
    """
    device, candidate = _choose(ranking, model, job)
    row = frame[frame["job_key"] == candidate.job_key].iloc[0]
    source = workspace.artifact(candidate.build_key)
    manifest = Manifest.read(source)
    if manifest.runtime in UNSHIPPABLE:
        raise EdgeSweepError(f"{candidate.name} can not be shipped: {UNSHIPPABLE[manifest.runtime]}", "export another")
    _check(source / manifest.file, manifest)
    shipped = Shipped(
        artifact=manifest.model_copy(update={"eval": None}),  # that file stays here
        expected=Expected(
            sweep=ranking.sweep,
            job=candidate.name,
            job_key=candidate.job_key,
            timed=candidate.timed,
            executor=candidate.executor,
            device=device.device,
            device_id=device.device_id,
            device_fingerprint=device.fingerprint,
            preset=str(row["preset"]),
            rounds=int(row["rounds"]),
            threads=int(row["threads"]),
            cpus=str(row["cpus"]),
            reuse_input=bool(row["reuse_input"]),
            runner=str(row["runner"]),
            runtime_version=str(row["runtime_version"]),
            exec_context=str(row["exec_context"]),
            verdict=candidate.verdict,
            trust=candidate.trust,
            figures={name: value for name in METRICS if (value := candidate.figures.get(name)) is not None},
        ),
    )
    try:
        output.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / manifest.file, output / manifest.file)
        (output / FILE_NAME).write_text(shipped.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"{output} can not be written: {error.strerror}", "give another folder with --output"
        ) from error
    return shipped


def _check(model: Path, manifest: Manifest) -> None:
    try:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    except OSError:
        digest = ""
    if digest != manifest.file_sha256:
        raise StoreError(f"{model} is missing or damaged", "run the sweep again: the file is built anew")


def _choose(ranking: Ranking, model: str | None, job: str | None) -> tuple[DeviceRanking, Candidate]:
    devices = [device for device in ranking.devices if model is None or device.model == model]
    if job is not None:
        found = [
            (device, candidate)
            for device in devices
            for candidate in (*device.ranking, *device.checked)
            if job in (candidate.name, candidate.name.removeprefix(f"{device.model} · "))
        ]
        if not found:
            raise EdgeSweepError(f"no ranked job is called {job!r}", "its name stands in: edgesweep rank")
        if len(found) > 1:
            raise EdgeSweepError(f"{len(found)} ranked jobs are called {job!r}", "choose with --model and --device too")
        return found[0]
    winners = [(device, device.winner) for device in devices if device.winner is not None]
    if len(winners) > 1:
        choices = "; ".join(f"{device.model} on {device.device} ({device.device_id})" for device, _ in winners)
        raise EdgeSweepError(
            f"there are {len(winners)} winners: {choices}", "choose with --device and --model, or --variant"
        )
    if not winners:
        reasons = "; ".join(device.no_winner_reason for device in devices) or "nothing was ranked"
        raise EdgeSweepError(
            f"there is no winner to export: {reasons}", "choose a job yourself: edgesweep export --variant NAME"
        )
    return winners[0]
