"""Devices that are connected, or come back, while a sweep runs: they join it when the other devices are done."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, StoreError
from sweeps.journal.journal import Journal
from sweeps.planning.plan import Plan
from sweeps.planning.planned_job import planned_job
from sweeps.quarantine import QuarantineBook
from sweeps.spec import catalog, lab_names
from workers.devices import registry
from workers.driver.driver_events import Away
from workers.hosts.lab import Lab


class Newcomers:
    """Devices that join one run. A device that went away joins once more; if it goes away again, it waits for the next
    run."""

    def __init__(
        self,
        names: Sequence[str],
        devices: Sequence[DeviceFacts],
        lab: Lab | None,
        listed: Callable[[], tuple[Collection[str], Mapping[str, DeviceError]]] = registry.listed,
        book: QuarantineBook | None = None,
    ) -> None:
        """Note the devices that are present at the start. `names`: the devices that the sweep file names. `devices`:
        those of the current plan. `lab`: the lab whose hosts have the phones; without it, the phones are attached to
        this computer. `listed`: a function that returns the names of this computer's devices, and the errors of
        transports that cannot list theirs. `book`: the quarantine list, by default this user's."""
        self._names = _that_come_and_go(names)
        self._lab = lab
        self._listed = listed
        self._book = book or QuarantineBook()
        # A device that is present but not in the plan cannot be measured.
        self._joined = self._present(devices).keys() - {facts.device_id for facts in devices}

    def joining(self, devices: Sequence[DeviceFacts], gone_ids: Collection[str]) -> tuple[str, ...]:
        """Return the names of devices that the sweep file names, that are present now, and that have work: new devices,
        and those of the plan's `devices` in `gone_ids`, which went away with jobs left. Each device is returned once
        per run."""
        back = {facts.device_id for facts in devices if facts.device_id in gone_ids and not self._is_kept_out(facts)}
        done = {facts.device_id for facts in devices} - back
        new = {
            device_id: name
            for device_id, name in self._present(devices).items()
            if device_id not in done and device_id not in self._joined
        }
        self._joined |= new.keys()
        return tuple(new.values())

    def _present(self, devices: Sequence[DeviceFacts]) -> dict[str, str]:
        """Return the names of the devices that are present, by device id; for a device of this computer that is not in
        the plan, its name stands for its id."""
        if not self._names:
            return {}
        if self._lab is None:
            ids = {facts.name: facts.device_id for facts in devices}
            attached, _ = self._listed()
            names = [name for name in attached if any(_means(pattern, name) for pattern in self._names)]
            return {ids.get(name, name): name for name in names}
        try:
            self._lab.look()  # a host may have joined meanwhile
        except DeviceError:  # the head is away: no device joins, because the last reports of the hosts may be outdated
            return {}
        present = (facts for name in self._names for facts in self._lab.select(name))
        known = (facts for facts in present if isinstance(facts, DeviceFacts))
        return {facts.device_id: facts.name for facts in known if not self._is_kept_out(facts)}

    def _is_kept_out(self, facts: DeviceFacts) -> bool:
        with suppress(StoreError):
            return self._book.quarantine(facts.device_id) is not None
        return False


def _that_come_and_go(names: Sequence[str]) -> tuple[str, ...]:
    selected = []
    for name in dict.fromkeys(names):
        entry = catalog.device(name)
        if lab_names.only_in_a_lab(name) or (entry is not None and entry.discovery):
            selected.append(name)
    return tuple(selected)


def _means(pattern: str, name: str) -> bool:
    return pattern == name or (pattern.endswith(":*") and name.startswith(pattern[:-1]))


def missed_devices(planned: Plan, journal: Journal, away: Collection[Away]) -> set[str]:
    """Return the ids of devices that went away with jobs pending. `away`: the run's events about absent devices and
    hosts."""
    waiting = [event for event in away if event.pending]
    if not waiting:
        return set()
    with_host = any(event.is_host for event in waiting)
    lost = {event.device for event in waiting}
    names = {facts.device_id: facts.name for facts in planned.devices}
    pending = {job.device_id for job in planned.jobs if journal.outcomes.ending(planned_job(planned, job)) is None}
    return {device_id for device_id in pending if with_host or names[device_id] in lost}
