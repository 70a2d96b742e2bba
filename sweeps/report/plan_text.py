"""The document of a plan, and its text for a terminal."""

from collections import Counter
from collections.abc import Hashable, Mapping
from types import MappingProxyType

from rich.text import Text

from sweeps.batches import FEWEST, group_of, one_process
from sweeps.planning.axes import without_choice
from sweeps.planning.plan import Plan
from sweeps.planning.size import Estimate
from sweeps.protocol.batch_noise import BatchSpread
from sweeps.protocol.racing import ERROR
from sweeps.protocol.resolvable_difference import Calibration
from sweeps.quarantine import Quarantine
from sweeps.ranking.eligibility import reference_text
from sweeps.report.noise_text import advice, advice_text, batch_document, race_text
from sweeps.report.terminal_tables import ONLY_CHECKED, cells, new_table, open_console
from sweeps.spec.protocol import MinutesBudget
from sweeps.stats import NEGLIGIBLE
from sweeps.text import duration, plain

_NOT_KNOWN: Mapping[str, Calibration] = MappingProxyType({})
_NOT_SHOWN: Mapping[str, BatchSpread] = MappingProxyType({})
_NONE: Mapping[str, Quarantine] = MappingProxyType({})
_NOT_BUILT: Mapping[str, Hashable] = MappingProxyType({})


def plan_document(
    plan: Plan,
    states: Mapping[str, str],
    left: Estimate,
    noise: Mapping[str, Calibration] = _NOT_KNOWN,
    spreads: Mapping[str, BatchSpread] = _NOT_SHOWN,
    quarantined: Mapping[str, Quarantine] = _NONE,
) -> dict[str, object]:
    """Return the document of `edgesweep plan --json`. `states` by job key: done, failed, built, to build. `noise` and
    `spreads` by device id, if they were measured; `spreads` only if the sweep races for one winner. `quarantined`:
    devices by id."""
    pooled = dict(plan.pooled)
    return {
        "sweep": plan.sweep.name,
        "budget": plan.sweep.model_dump(mode="json")["budget"],
        "budget_reason": plan.budget_reason,
        "jobs": [
            {
                "name": job.name,
                "model": job.model,
                "grid": job.grid,
                "device_id": job.device_id,
                "variant": job.variant.axes(),
                "threads": job.run.threads,
                "cpus": job.run.cpus,
                "reuse_input": job.run.reuse_input,
                "job_key": job.key,
                "pool_key": pooled.get(job.key),
                "build_key": job.build_key,
                "state": states[job.key],
                "emulated": job.emulated,
                "reference": job.reference,
            }
            for job in plan.jobs
        ],
        "skipped": [
            {
                "name": skip.name,
                "device_id": skip.device_id,
                "variant": skip.variant.axes(),
                "kind": skip.kind,
                "reason": skip.reason,
            }
            for skip in plan.skipped
        ],
        "no_choice": {where: list(axes) for where, axes in _no_choice(plan).items()},
        "estimate_s": round(left.seconds, 1),
        "estimate_builds_s": round(left.builds_s, 1),
        "devices": [
            {
                "device_id": facts.device_id,
                "name": facts.name,
                "device": facts.device_class,
                "estimate_s": round(left.devices_s[facts.device_id], 1),
            }
            for facts in plan.devices
        ],
        "noise": {
            device_id: advice(calibration, plan.protocol.on(device_id)) for device_id, calibration in noise.items()
        },
        "batches": {device_id: batch_document(spread) for device_id, spread in spreads.items()},
        "quarantined": {device_id: quarantine.document for device_id, quarantine in quarantined.items()},
    }


def print_plan(
    plan: Plan,
    states: Mapping[str, str],
    seconds: float,
    noise: Mapping[str, Calibration] = _NOT_KNOWN,
    spreads: Mapping[str, BatchSpread] = _NOT_SHOWN,
    quarantined: Mapping[str, Quarantine] = _NONE,
    programs: Mapping[str, Hashable] = _NOT_BUILT,
    worth_retrying: int = 0,
) -> None:
    """Print the content of `plan_document` for people. `programs`: as in `race_lines`. `worth_retrying`: the number of
    failed jobs that may succeed in another try."""
    console = open_console()
    names = {facts.device_id: facts.name for facts in plan.devices}
    protocol = plan.protocol
    races = protocol.budget == "race"
    table = new_table(f"{plan.sweep.name}: jobs", ">#", "job", "device", ">rounds", "state")
    for number, job in enumerate(plan.jobs, 1):
        rounds = ONLY_CHECKED if job.emulated else "race" if races else protocol.on(job.device_id).rounds
        table.add_row(*cells(number, job.name, names[job.device_id], rounds, states[job.key]))
    console.print(table)
    if plan.skipped:
        table = new_table("Skipped", "combination", "device", "kind", "reason")
        for skip in plan.skipped:
            table.add_row(*cells(skip.name, names[skip.device_id], skip.kind, skip.reason))
        console.print(table)
    for where, axes in _no_choice(plan).items():
        console.print(Text(plain(f"{where} has no choice of {', '.join(axes)}: the grid's values mean nothing there")))
    for reference in sorted({job.reference for job in plan.jobs if job.emulated}):
        console.print(Text(plain(f"{ONLY_CHECKED}: {reference_text(reference)}"), style="dim"))
    artifacts = {job.build_key for job in plan.jobs}
    emulated = sum(job.emulated for job in plan.jobs)
    checked = f" ({emulated} {ONLY_CHECKED})" if emulated else ""
    ended = Counter(states.values())
    retry_hint = " (try again with: run --retry-failed)" if worth_retrying else ""
    failed = f", {ended['failed']} failed{retry_hint}" if ended["failed"] else ""
    console.print(
        f"{len(plan.jobs)} jobs{checked} of {len(artifacts)} artifacts, {len(plan.skipped)} combinations skipped, "
        f"{ended['done']} jobs done{failed}; about {duration(seconds)} to go"
    )
    console.print(Text(plain(budget_text(plan))))
    for device_id, calibration in noise.items():
        console.print(Text(plain(advice_text(names[device_id], calibration, protocol.on(device_id)))))
    for line in race_lines(plan, spreads, programs):
        console.print(Text(line))
    for device_id, quarantine in quarantined.items():
        console.print(Text(plain(f"{names[device_id]} is quarantined {quarantine.text}; {quarantine.way_out}")))


def _no_choice(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the axes without a choice, of all grids together, as `without_choice` does for one grid."""
    no_choice: dict[str, tuple[str, ...]] = {}
    for grid in plan.sweep.grids:
        for where, axes in without_choice(grid).items():
            no_choice[where] = tuple(dict.fromkeys([*no_choice.get(where, ()), *axes]))
    return no_choice


def budget_text(plan: Plan) -> str:
    """Return a text about the budget: how long the variants are measured, and who decided that."""
    budget, objective = plan.sweep.budget, plan.sweep.objective
    name = f"a race of at most {budget.device_minutes:g} min a device" if isinstance(budget, MinutesBudget) else budget
    words = f"budget: {name}" + (f" ({plan.budget_reason})" if plan.budget_reason else "")
    if budget == "full" or objective.front is not None:
        return words
    return (
        f"{words}; it ends when its leader is within {100 * NEGLIGIBLE:g} % of the best with a probability of "
        f"{100 * (1 - ERROR):g} %"
    )


def race_lines(
    plan: Plan, spreads: Mapping[str, BatchSpread], programs: Mapping[str, Hashable] = _NOT_BUILT
) -> list[str]:
    """Return for people how the sweep's races will end on each device of `spreads`. `spreads`: as in `plan_document`.
    `programs`: the known programs of builds, by job key; a race times one build of each program. A build whose program
    is not known counts as a separate program."""
    lines = []
    for facts in plan.devices:
        if facts.device_id in spreads:
            groups: dict[str, dict[Hashable, str]] = {}
            for job in plan.jobs:
                if job.device_id == facts.device_id and not job.emulated:
                    groups.setdefault(job.model, {})[programs.get(job.key, job.key)] = group_of(job)
            shared = {model: list(by_program.values()) for model, by_program in groups.items()}
            few = [model for model, groups_of_model in shared.items() if len(groups_of_model) < FEWEST]
            separate = [
                model
                for model, groups_of_model in shared.items()
                if model not in few and not one_process(groups_of_model)
            ]
            lines.append(plain(race_text(facts.name, spreads[facts.device_id], separate, few)))
    return lines
