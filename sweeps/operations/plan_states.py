"""The plan of a sweep, with the state of each job."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sweeps.failure_kinds import FAILS_AGAIN
from sweeps.journal.journal import Journal
from sweeps.operations.sweep_plan import make_plan
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.planning.program_identity import programs_of
from sweeps.planning.size import Estimate, estimate
from sweeps.records import Failed
from sweeps.spec.sweep import SweepSpec
from sweeps.workspace import Workspace
from workers.driver.sharing import Sharing
from workers.measure.outlook import outlook_here

if TYPE_CHECKING:
    from workers.hosts.lab import Lab

State = Literal["done", "failed", "built", "to build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Work that a run would do."""

    plan: Plan
    states: Mapping[str, State]
    """State of each job, by job key."""
    worth_retrying: int
    """Number of failed jobs that may succeed when they are retried."""
    left: Estimate
    programs: Mapping[str, Hashable]
    """Identity of each job's program, as `programs_of` returns it."""
    sharing: tuple[str, ...]
    """Lines of text that say how units share the work."""
    machine: tuple[str, ...]
    """Lines of text that say how this machine's state will affect the run."""


def plan_with_states(spec: SweepSpec, roots: Sequence[Path], workspace: Workspace, lab: "Lab | None" = None) -> Planned:
    """Return the plan of a sweep with the states of its jobs. It runs nothing, and creates no workspace. Raises as
    `make_plan`."""
    from workers.artifacts import ArtifactStore  # the module imports numpy, which `plan --help` does not need

    planned = make_plan(spec, roots, workspace, lab)
    with Journal.open(workspace.journal, read_only=True) if workspace.journal.exists() else nullcontext() as before:
        sharing = Sharing(planned, before, record=False)
        lines = tuple(sharing.lines())
        sharing.propose()
        planned = sharing.plan
    store = ArtifactStore(workspace.artifacts)
    built = {key for key in {job.build_key for job in planned.jobs} if store.look(key) is not None}
    states: dict[str, State] = {job.key: "built" if job.build_key in built else "to build" for job in planned.jobs}
    programs: dict[str, Hashable] = {}
    worth_retrying = 0
    if workspace.journal.exists():
        with Journal.open(workspace.journal, read_only=True) as journal:
            programs = programs_of(planned, journal.artifacts.latest)
            ended = {job.key: journal.outcomes.ending(planned_job(planned, job)) for job in planned.jobs}
        failed = [ending for ending in ended.values() if isinstance(ending, Failed)]
        worth_retrying = sum(failure.kind not in FAILS_AGAIN for failure in failed)
        states |= {key: "failed" if isinstance(ending, Failed) else "done" for key, ending in ended.items() if ending}
    finished = {key for key, state in states.items() if state in ("done", "failed")}
    left = estimate(planned, planned.protocol, finished, built)
    return Planned(
        plan=planned,
        states=states,
        worth_retrying=worth_retrying,
        left=left,
        programs=programs,
        sharing=lines,
        machine=tuple(outlook_here(planned)) if left.seconds else (),
    )
