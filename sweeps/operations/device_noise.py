"""The noise that `edgesweep noise` found before on the devices of a plan."""

from collections.abc import Callable
from typing import TypeVar

from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.journal.noise_blocks import known_batch_spread
from sweeps.operations.notices import tell
from sweeps.planning.plan import Plan
from sweeps.protocol.batch_noise import BatchSpread
from sweeps.workspace import Workspace

Found = TypeVar("Found")


def known(
    planned: Plan, workspace: Workspace, read: Callable[[Workspace, DeviceFacts], Found | None]
) -> tuple[dict[str, Found], list[StoreError]]:
    """The values that `read` gives, by the id of each device that is timed, and the errors of those that cannot be
    read."""
    timed = {job.device_id for job in planned.jobs if not job.emulated}
    values: dict[str, Found] = {}
    errors: list[StoreError] = []
    for facts in planned.devices:
        try:
            value = read(workspace, facts) if facts.device_id in timed else None
        except StoreError as error:
            errors.append(error)
        else:
            if value is not None:
                values[facts.device_id] = value
    return values, errors


def batch_spreads(planned: Plan, workspace: Workspace) -> dict[str, BatchSpread]:
    """The spreads of batches by device id; empty unless the sweep races for one winner. A file that cannot be read is
    told on stderr."""
    if planned.protocol.budget != "race" or planned.sweep.objective.front is not None:
        return {}
    spreads, errors = known(planned, workspace, known_batch_spread)
    for error in errors:
        tell(error.one_line)  # no plan and no run needs the spread
    return spreads
