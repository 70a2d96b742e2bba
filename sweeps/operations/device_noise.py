"""The noise of a plan's devices, as earlier runs of `edgesweep noise` measured it."""

from collections.abc import Callable
from typing import TypeVar

from sweeps.device_facts import DeviceFacts
from sweeps.errors import StoreError
from sweeps.journal.noise_blocks import known_batch_spread
from sweeps.operations.notices import notify
from sweeps.planning.plan import Plan
from sweeps.protocol.batch_noise import BatchSpread
from sweeps.workspace import Workspace

Read = TypeVar("Read")


def read_per_device(
    planned: Plan, workspace: Workspace, read: Callable[[Workspace, DeviceFacts], Read | None]
) -> tuple[dict[str, Read], list[StoreError]]:
    """Return the results of `read` for the timed devices of a plan, by device id (without devices for which it returns
    `None`), and the errors of devices whose files cannot be read."""
    timed = {job.device_id for job in planned.jobs if not job.emulated}
    values: dict[str, Read] = {}
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
    """Return the spreads of batches by device id; empty unless the sweep races for one winner. A file that cannot be
    read is reported on stderr."""
    if planned.protocol.budget != "race" or planned.sweep.objective.front is not None:
        return {}
    spreads, errors = read_per_device(planned, workspace, known_batch_spread)
    for error in errors:
        notify(error.one_line)  # no plan and no run needs the spread
    return spreads
