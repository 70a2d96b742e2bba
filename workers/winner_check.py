"""Measures a shipped winner again, to check whether the figures in its manifest still hold.

The file beside the manifest is not trusted. Its checksum is compared with the manifest's, then only the runner opens
it, in a separate process. In the workspace the file has a key that no plan can have, so it cannot be confused with an
artifact that was built here.
"""

import hashlib
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sweeps import manifest as manifests
from sweeps.device_facts import canonical_key
from sweeps.errors import DeviceError, EdgeSweepError, StoreError
from sweeps.journal.result_row import fixed_performance_of, gate_of
from sweeps.journal.sentinel_series import sentinel_series
from sweeps.label_kinds import disqualified
from sweeps.protocol.blocks import summarize
from sweeps.protocol.presets import Protocol
from sweeps.ranking.comparison import EXIT_NOT_COMPARED, EXIT_SLOWER, EXIT_UNRESOLVED, spread_of
from sweeps.ranking.comparison_input import Origin, Result, SessionConditions, differing
from sweeps.ranking.exported_build import Shipped
from sweeps.ranking.latency_findings import judge
from sweeps.ranking.session_ratio import Spread, mean_ms, ratio
from sweeps.records import Block, Failed, Job
from sweeps.spec import catalog
from sweeps.stats import median
from sweeps.variant import RunAxes
from sweeps.workspace import Workspace
from workers.artifacts import ArtifactStore, PackedArtifact
from workers.measure.attach import attach
from workers.measure.device_runner import DeviceRunner
from workers.measure.timed_block import BlockRequest, ReadyRequest
from workers.measure.waiting import WaitLimits, wait_until_ready

NOT_MEASURED = "accuracy was not measured again: that needs the evaluation images"

Finding = Literal["holds", "slower", "slower (one session)", "unresolved", "not comparable"]
_EXIT_CODES: dict[Finding, int] = {
    "holds": 0,
    "slower": EXIT_SLOWER,
    "slower (one session)": EXIT_UNRESOLVED,
    "not comparable": EXIT_NOT_COMPARED,
    "unresolved": EXIT_UNRESOLVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCheck:
    """The figures that the manifest expects, and the newly measured ones."""

    job: str
    device: str
    """The device of the new measurement."""
    finding: Finding
    """The result of the comparison. `holds`: the file is shown to be slower by less than the margin, if at all. An
    unresolved result has not passed."""
    why: str
    """The differences if the figures are not comparable, the next step if the result is unresolved; otherwise empty."""
    margin_percent: float
    """The margin that was passed to `sweeps.ranking.latency_findings.latency_finding` (%)."""
    expected_p50_ms: float
    p50_ms: float
    block_medians_ms: tuple[float, ...]
    """The medians of the blocks that count: as in a sweep, blocks with a disqualifying label do not count if there are
    enough others."""
    expected_mean_ms: float | None
    """The geometric mean of the expected blocks, in which each session has the same weight; `None` if there is only one
    block."""
    mean_ms: float | None
    ratio: float | None
    """The new latency as a multiple of the expected one: `mean_ms` divided by `expected_mean_ms`, with its 95 %
    interval; `None` if one of them has only one block."""
    ratio_low: float | None
    ratio_high: float | None
    session_spread_percent: float
    """The standard deviation between sessions of the device (%), which the interval includes."""
    trust: tuple[str, ...]
    note: str = NOT_MEASURED

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.finding]

    def document(self) -> dict[str, Any]:
        """Return the document that `edgesweep check --json` prints."""
        return {**asdict(self), "exit_code": self.exit_code}


def check(
    shipped: Shipped,
    path: Path,
    device: str,
    workspace: Workspace,
    rounds: int,
    margin_percent: float,
    tell: Callable[[Block], None],
) -> ManifestCheck:
    """Measure the file that `path` (the manifest, read as `shipped`) describes, on the device with the name `device`.

    `tell` gets each block when it ends. Raises `EdgeSweepError` if the manifest lacks something, if the file is not the
    one that the manifest describes, or if it cannot be measured.
    """
    then = shipped.comparable(path)
    expected = shipped.expected
    assert expected.protocol is not None
    packed = _packed(shipped, path.parent)
    started_s = int(time.time())
    protocol = expected.protocol.resolve()
    attached = attach(device, workspace.root, [shipped.artifact.axes.runtime])
    facts = attached.facts
    device_runner = DeviceRunner(attached.device, workspace.root, facts, attached.programs)
    job = Job(
        key=canonical_key({"check": packed.build_key, "device": facts.device_id}),
        build_key=packed.build_key,
        name=expected.job,
        model=shipped.artifact.model,
        grid=expected.grid,
        variant=shipped.artifact.axes,
        run=RunAxes(threads=expected.threads, cpus=expected.cpus, reuse_input=expected.reuse_input),
        device_id=facts.device_id,
    )
    try:
        attached.device.end_orphans()
        ArtifactStore(workspace.artifacts).unpack(packed)
        blocks = []
        limits = WaitLimits(protocol)
        for round_ in range(rounds):
            blocks.append(_block(device_runner, job, round_, protocol, limits))
            tell(blocks[-1])
    finally:
        device_runner.close()
        shutil.rmtree(workspace.artifact(packed.build_key), ignore_errors=True)
    timing = summarize(job.key, blocks, protocol)
    now = Result(
        name=then.name,
        model=then.model,
        setup=then.setup,
        device=facts.device_class,
        device_id=facts.device_id,
        fingerprint=facts.fingerprint,
        conditions=SessionConditions(
            preset=protocol.preset,
            runtime_version=blocks[-1].runtime_version,
            runner=blocks[-1].runner,
            exec_context=blocks[-1].conditions.exec_context,
            gate=gate_of(blocks),
            fixed_performance=fixed_performance_of(blocks),
            protocol=expected.protocol.model_dump_json(),
        ),
        medians_ms=tuple(ms for _, ms in timing.block_medians_ms),
        origins=(Origin(run=str(started_s), session=started_s),) * len(timing.block_medians_ms),
        trust=timing.labels,
        release=then.release,
    )
    devices = {then.device_id, now.device_id}
    spread = spread_of(devices, [then, now], sentinel_series(workspace.journal, devices))
    return _judged(then, now, margin_percent, spread)


def _judged(then: Result, now: Result, margin_percent: float, spread: Spread) -> ManifestCheck:
    why = differing(then, now)
    why += [f"{when}: {label}" for when, side in (("then", then), ("now", now)) for label in disqualified(side.trust)]
    new_ratio = ratio(now, then, spread)
    if new_ratio is None:
        why.append(
            f"an interval needs 2 blocks or more of both: {len(then.medians_ms)} then, {len(now.medians_ms)} now"
        )
    finding: Finding = "not comparable"
    if not why:
        finding, still_open = _finding(then, now, margin_percent, spread)
        why += [still_open] if still_open else []
    return ManifestCheck(
        job=then.name,
        device=now.device,
        finding=finding,
        why="; ".join(why),
        margin_percent=margin_percent,
        expected_p50_ms=median(then.medians_ms),
        p50_ms=median(now.medians_ms),
        block_medians_ms=now.medians_ms,
        expected_mean_ms=mean_ms(then),
        mean_ms=mean_ms(now),
        ratio=None if new_ratio is None else new_ratio.value,
        ratio_low=None if new_ratio is None else new_ratio.low,
        ratio_high=None if new_ratio is None else new_ratio.high,
        session_spread_percent=spread.percent,
        trust=now.trust,
    )


def _finding(then: Result, now: Result, margin_percent: float, spread: Spread) -> tuple[Finding, str]:
    """Return the finding as `edgesweep compare` does, but one-sided: it does not matter how much faster the file has
    become. The text says what the finding leaves open."""
    judged = judge(now, then, spread, margin_percent)
    assert judged is not None
    match judged.finding:
        case "faster" | "the same" | "not slower":
            return "holds", ""
        case finding:
            return finding, judged.still_open


def _packed(shipped: Shipped, folder: Path) -> PackedArtifact:
    artifact = shipped.artifact
    if reason := catalog.unshippable(artifact.axes.runtime):
        raise EdgeSweepError(f"{shipped.expected.job} is not checked: {reason}")
    path = folder / artifact.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path}, which the manifest is about, cannot be read: {error.strerror}",
            "put the exported file beside its manifest",
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != artifact.file_sha256:
        raise StoreError(
            f"{path} is not the file that the manifest is about: its sha256 is {digest[:12]}…, "
            f"not {artifact.file_sha256[:12]}…",
            "export it again; a file that was changed is not opened",
        )
    key = canonical_key({"shipped": digest, "manifest": artifact.model_dump(mode="json")})
    manifest = artifact.model_copy(update={"build_key": key, "eval": None})
    return PackedArtifact(key, {manifests.FILE_NAME: manifest.model_dump_json().encode(), manifest.file: content})


def _block(device_runner: DeviceRunner, job: Job, round_: int, protocol: Protocol, limits: WaitLimits) -> Block:
    ready = wait_until_ready(lambda seconds: device_runner.ask(ReadyRequest(job, protocol.gate, seconds)), limits)
    block = ready if isinstance(ready, Failed) else device_runner.ask(BlockRequest(job, round_, protocol, ready))
    if isinstance(block, Failed):
        raise DeviceError(block.kind, f"{job.name} could not be measured: {block.message}")
    return block
