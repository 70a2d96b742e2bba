"""The devices and the doctor's checks, for a terminal and as JSON."""

from collections.abc import Sequence

from rich.text import Text

from sweeps.device_facts import DeviceFacts
from sweeps.report.terminal_tables import cells, new_table, open_console


def facts_document(facts: DeviceFacts) -> dict[str, object]:
    """Return one device of `edgesweep devices --json`."""
    return {
        "name": facts.name,
        "device_id": facts.device_id,
        "device_class": facts.device_class,
        "fingerprint": facts.fingerprint,
        "os_build": facts.os_build,
        "abi": facts.abi,
        "cores": facts.cores,
        "ram_bytes": facts.ram_bytes,
        "cpu_features": list(facts.cpu_features),
        "runtimes": dict(facts.runtime_versions),
        "qengines": list(facts.qengines),
    }


def print_devices(devices: Sequence[DeviceFacts]) -> None:
    table = new_table("Devices", "name", "id", "class", "OS", "ABI", ">cores", ">RAM", "runtimes", "int8 engines")
    for facts in devices:
        ram = "–" if facts.ram_bytes is None else f"{facts.ram_bytes / 2**30:.0f} GiB"
        runtimes = ", ".join(f"{name} {version}" for name, version in facts.runtime_versions) or "none"
        engines = ", ".join(facts.qengines) or "none"
        table.add_row(
            *cells(
                facts.name,
                facts.device_id,
                facts.device_class,
                facts.os_build,
                facts.abi,
                facts.cores,
                ram,
                runtimes,
                engines,
            )
        )
    open_console().print(table)


def print_checks(checks: Sequence[tuple[str, bool, str, str]]) -> None:
    """Print rows of (name, whether it is present, its detail, the command that fixes it)."""
    table = new_table("Doctor", "", "what", "found", "to enable it")
    for name, ok, detail, fix in checks:
        mark = Text("ok", style="green") if ok else Text("--", style="yellow")
        table.add_row(*cells(mark, name, detail, "" if ok else fix))
    open_console().print(table)
