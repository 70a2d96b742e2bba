"""EdgeSweep from Python and in notebooks: the functions behind the commands.

    from sweeps import api

    sweep = api.load("sweep.yaml")
    api.plan(sweep).jobs()                                 # what would run
    api.run(sweep, on_event=print)                         # build and measure; run again to continue
    api.results("my-sweep").sort_values("latency_p50_ms")  # a DataFrame
    api.rank("my-sweep").devices[0].winner
    api.export("shipped", "my-sweep")

Every error is an `EdgeSweepError` with what happened and the next step. Messages for people go to stderr. No function
ends the program, needs the main thread, or leaves a signal handler behind.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sweeps.errors import EdgeSweepError, NoResultsError
from sweeps.journal.next_step_hints import hints_of
from sweeps.operations.build_name import job_named
from sweeps.operations.plan_states import Planned, plan_with_states
from sweeps.operations.run import RunEnd, Stop, Watch, rank_and_attach, run_sweep
from sweeps.operations.stored_results import device_id_of, of_latest, open_results, results_of
from sweeps.operations.sweep_plan import load_sweep, roots_of
from sweeps.planning.size import check_size
from sweeps.ranking.exported_build import Shipped, export_candidate
from sweeps.ranking.rank import rank as rank_results
from sweeps.ranking.values import Ranking
from sweeps.report.table_files import arrow_table, results_table
from sweeps.results import of_device, read_rows
from sweeps.spec.label import label_of
from sweeps.spec.sweep import SweepSpec, validated_values
from sweeps.store.read_journal import rank_sweep
from sweeps.workspace import DEFAULT_ROOT, ROOT_VARIABLE, Workspace
from workers.driver.driver_events import Event

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EdgeSweepError", "Event", "Plan", "Ranking", "Run", "Shipped", "Sweep", "build", "export", "load", "plan"]
__all__ += ["rank", "results", "run"]

Folder = str | Path


@dataclass(frozen=True, slots=True)
class Sweep:
    """The content of a sweep file, and the folders to search first for the user's own modules."""

    spec: SweepSpec
    folders: tuple[Path, ...]

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class Plan:
    """The work that a run would do; `details` has the whole plan."""

    details: Planned

    @property
    def seconds(self) -> float:
        """A rough estimate of the remaining time in seconds."""
        return self.details.left.seconds

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for people about how the state of this machine affects the run."""
        return self.details.machine

    def jobs(self) -> "pd.DataFrame":
        """Return one row per job: name, model, device, variant, state (`done`, `failed`, `built`, `to build`)."""
        import pandas as pd

        planned = self.details.plan
        names = {facts.device_id: facts.name for facts in planned.devices}
        rows = [
            (job.name, job.model, names[job.device_id], label_of(job.variant), self.details.states[job.key])
            for job in planned.jobs
        ]
        return pd.DataFrame(rows, columns=["name", "model", "device", "variant", "state"])

    def skipped(self) -> "pd.DataFrame":
        """Return one row per skipped combination: name, reason."""
        import pandas as pd

        rows = [(skip.name, skip.reason) for skip in self.details.plan.skipped]
        return pd.DataFrame(rows, columns=["name", "reason"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a run: the ranking, and the work that remains."""

    ranking: Ranking | None
    """The ranking; `None` if the run was stopped before anything was measured."""
    interrupted: bool
    """Whether `stop` ended the run."""
    still_to_do: tuple[str, ...]
    """The work that remains for the next run, as texts for people."""


def load(file: Folder, *, many: bool = False) -> Sweep:
    """Read and check a sweep file. `many`: whether the file may have more than 10,000 jobs. Raises `SpecError` with a
    line for each problem."""
    path = Path(file)
    return Sweep(load_sweep(path, many), roots_of(path))


def build(content: Mapping[str, Any], *, folder: Folder = ".", many: bool = False) -> Sweep:
    """Return a sweep from values in the form of a sweep file. `folder`: the folder of relative paths and of modules.
    Raises `SpecError` with a line for each problem."""
    root = Path(folder).resolve()
    spec = validated_values(dict(content), root)
    check_size(spec, len(spec.devices), many)
    return Sweep(spec, (root,))


def plan(sweep: Sweep, workspace: Folder | None = None) -> Plan:
    """Return the plan of a run with the devices that are connected now; runs nothing."""
    return Plan(plan_with_states(sweep.spec, sweep.folders, Workspace(_root(workspace))))


def run(
    sweep: Sweep,
    workspace: Folder | None = None,
    *,
    on_event: Callable[[Event], object] = lambda _: None,
    stop: Stop = lambda: False,
    executor: Literal["ray", "inline"] = "ray",
    retry_failed: bool = False,
    settle: int = 0,
    quiet: bool = False,
) -> Run:
    """Build, measure and rank; after an interruption the same call continues.

    `on_event` is called in this thread with each event of `workers.driver.driver_events`, after the event is in the
    journal. `stop` is called between pieces of work, from several threads; if it returns true, the running work ends
    and the run stops. An interrupt (a notebook's stop button) stops the run at once, and nothing measured is lost.
    `executor`, `retry_failed` and `settle`: as the options of `edgesweep run`. `quiet`: no progress on stderr.

    Raises `NoResultsError` if nothing was measured, `WorkspaceError` if another run has locked the workspace.
    """
    opened = Workspace.open(_root(workspace))
    watch = Watch(event=on_event, asking=lambda _note, _on_request: nullcontext(stop), quiet=quiet)
    ended: RunEnd = run_sweep(
        sweep.spec, sweep.folders, opened, executor, retry_failed=retry_failed, settle=settle, watch=watch
    )
    try:
        ranked = rank_and_attach(opened, sweep.name)
    except NoResultsError:
        if not ended.interrupted:
            raise
        ranked = None
    return Run(ranking=ranked, interrupted=ended.interrupted, still_to_do=ended.still_to_do)


def results(sweep: str | None = None, workspace: Folder | None = None, *, device: str | None = None) -> "pd.DataFrame":
    """Return one row per job or skipped combination of a sweep (by default the latest), in the form of
    `edgesweep report --parquet`: text, true integers and booleans, figures with their unit in the name; unknown figures
    are NaN.

    `device`: its name in the sweep file, its id, or a part of its name.
    """
    stored = results_of(Workspace(_root(workspace)), sweep)
    rows = read_rows(stored.frame, stored.name)
    device = device_id_of(device, stored.names)
    frame: pd.DataFrame = arrow_table(results_table(rows if device is None else of_device(rows, device))).to_pandas()
    return frame


def rank(sweep: str | None = None, workspace: Folder | None = None, *, device: str | None = None) -> Ranking:
    """Return the ranking of a sweep (by default the latest): for each device and model the candidates, best first."""
    opened = Workspace(_root(workspace))
    with of_latest(opened, sweep), open_results(opened, sweep) as stored:
        return rank_sweep(stored.journal, stored.name, device_id_of(device, stored.device_names))


def export(
    output: Folder,
    sweep: str | None = None,
    workspace: Folder | None = None,
    *,
    device: str | None = None,
    model: str | None = None,
    variant: str | None = None,
) -> Shipped:
    """Copy the winner, or the job named `variant`, into the folder `output`, with its expected figures."""
    opened = Workspace(_root(workspace))
    stored = results_of(opened, sweep)
    device = device_id_of(device, stored.names)
    ranked = rank_results(stored.frame, stored.spec.objective, stored.name, device, hints=hints_of(stored.spec))
    if variant is not None:
        rows = read_rows(stored.frame, stored.name)
        variant = job_named(rows if device is None else of_device(rows, device), variant, model)
    return export_candidate(ranked, stored.frame, opened, model=model, job=variant, output=Path(output))


def _root(workspace: Folder | None) -> Path:
    named = workspace or os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT
    return Path(named).expanduser().resolve()
