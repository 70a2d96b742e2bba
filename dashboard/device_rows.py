"""The rows of the page Devices: the state, results, facts and health of each device."""

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.markdown_escape import NOTHING, line
from sweeps.device_facts import DeviceFacts
from sweeps.journal.job_history import KnownDevice, Sentinel
from sweeps.launching.away_devices import NOBODY, AwayDevices
from sweeps.quarantine import DeviceRecord
from sweeps.ranking.overview import PlaceVerdict

STATES = {
    "quarantined": "quarantined: sweeps leave it alone",
    "measuring": "is being measured now",
    "away": "is away from the sweep that runs",
    "was away": "was away when the last run looked",
    "waiting": "jobs wait for it",
    "done": "all its jobs have ended",
    "idle": "in no sweep",
}


def state_of(
    record: DeviceRecord | None,
    holder: int | None,
    verdicts: Sequence[PlaceVerdict],
    away: AwayDevices = NOBODY,
    name: str = "",
) -> str:
    """Return the device's state, a key of `STATES`. `holder`: the id of the process that measures on it, if any.
    `verdicts`: those of the device's places. `away`: the absent devices. `name`: the device's name in sweep files."""
    if record is not None and record.quarantine is not None:
        return "quarantined"
    if holder is not None:
        return "measuring"
    if name in away.devices:
        return "away" if away.runs else "was away"
    if not verdicts:
        return "idle"
    return "waiting" if any(verdict.waiting for verdict in verdicts) else "done"


def places_of(device: KnownDevice, verdicts: Sequence[PlaceVerdict]) -> list[PlaceVerdict]:
    """Return the verdicts of places where the device has results or waits for some, also as a unit of a pool."""
    return [verdict for verdict in verdicts if verdict.device_id in device.place_ids and verdict.sweep in device.sweeps]


def places(verdicts: Iterable[PlaceVerdict]) -> list[list[PlaceVerdict]]:
    """Group verdicts by place. A place has one verdict for each set of conditions; each has the counts of the whole
    place."""
    parts: dict[tuple[str, str, str], list[PlaceVerdict]] = {}
    for verdict in verdicts:
        parts.setdefault(verdict.place, []).append(verdict)
    return list(parts.values())


def overview(
    devices: Sequence[KnownDevice],
    verdicts: Sequence[PlaceVerdict],
    records: dict[str, DeviceRecord],
    holders: dict[str, int],
    away: AwayDevices = NOBODY,
) -> list[dict[str, Any]]:
    """Return a table row for each device: first the devices of the current plans, then those that are known only from
    the quarantine records."""
    rows = []
    by_place: dict[str, list[PlaceVerdict]] = {}
    for item in verdicts:
        by_place.setdefault(item.device_id, []).append(item)
    for device in devices:
        facts = device.facts
        measured = [
            verdict for key in device.place_ids for verdict in by_place.get(key, []) if verdict.sweep in device.sweeps
        ]
        shown = [parts[0] for parts in places(measured)]
        record = records.get(facts.device_id)
        rows.append(
            {
                "Device": line(facts.device_class),
                "Named": line(facts.name),
                "State": STATES[state_of(record, holders.get(facts.device_id), shown, away, facts.name)],
                "Ended": sum(verdict.finished for verdict in shown),
                "Waiting": sum(verdict.waiting for verdict in shown),
                "Faults": len(record.faults) if record else 0,
                "Id": line(facts.device_id),
            }
        )
    in_sweeps = {device.facts.device_id for device in devices}
    rows += [
        {
            "Device": NOTHING,
            "Named": line(record.name),
            "State": STATES[state_of(record, None, ())],
            "Ended": 0,
            "Waiting": 0,
            "Faults": len(record.faults),
            "Id": line(key),
        }
        for key, record in records.items()
        if key not in in_sweeps
    ]
    return rows


def fact_pairs(facts: DeviceFacts) -> list[tuple[str, str]]:
    """Return the title and value of each known fact about a device."""
    pairs = [
        ("Maker", facts.maker),
        ("Model", facts.model),
        ("SoC", facts.soc),
        ("OS build", facts.os_build),
        ("ABI", facts.abi),
        ("Cores", str(facts.cores)),
        ("Clusters of cores", "; ".join(", ".join(map(str, cluster)) for cluster in facts.core_clusters)),
        ("Memory", "" if facts.ram_bytes is None else f"{facts.ram_bytes / 2**30:.1f} GiB"),
        ("CPU features", ", ".join(facts.cpu_features)),
        ("Runtimes", ", ".join(" ".join(version) for version in facts.runtime_versions)),
        ("Runners", ", ".join(" ".join(runner) for runner in facts.runners)),
        ("Quantized engines", ", ".join(facts.qengines)),
        ("NNAPI level", "" if facts.nnapi_level is None else str(facts.nnapi_level)),
        ("Accelerators", ", ".join(facts.accelerators)),
        ("Its host checks models for", ", ".join(facts.emulates)),
        ("Programs run as", facts.exec_context),
        ("Named in sweep files", facts.name),
        ("Device id", facts.device_id),
        ("Fingerprint", facts.fingerprint),
    ]
    return [(title, line(value)) for title, value in pairs if value]


def host_of(facts: DeviceFacts) -> str:
    """Return in words the computer that the device is attached to, as far as its name tells."""
    name = facts.name
    if name.startswith("host:"):
        return f"the lab's host {line(name.removeprefix('host:').partition('/')[0])}"
    if name.startswith("ssh:"):
        return f"itself, over ssh as {line(name.removeprefix('ssh:'))}"
    if name == "local":
        return "this computer: it is the device"
    return "the computer that ran the sweep, by its adb server" if name.startswith("adb:") else "not known"


def health(sentinel: Sentinel) -> list[str]:
    """Return sentences about the sentinel's last block, and about how often the device changed its speed."""
    if not sentinel.looks:
        return []
    last = sentinel.looks[-1]
    usual = sorted(look.ms for look in sentinel.looks)[len(sentinel.looks) // 2]
    away = 100 * (last.ms / usual - 1)
    words = [f"The last look took {last.ms:.3f} ms, {away:+.1f} % from the median of {len(sentinel.looks)} looks."]
    if last.temp_c is not None:
        words.append(f"It was at {last.temp_c:.1f} °C then.")
    if last.battery_percent is not None:
        words.append(f"Its battery was at {last.battery_percent:.0f} %.")
    spans = len(sentinel.spans)
    words.append(f"It changed its speed for good {spans} time{'s' * (spans != 1)}." if spans else "No lasting change.")
    return words
