"""Groups the CPUs of a machine by kind of core. Standard library only: the runner uses it before all other imports."""

from contextlib import suppress
from pathlib import Path

# The scheduler's capacity first. Clock rates compare microarchitectures badly, but old kernels have nothing else.
_STRENGTH_FILES = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")


def clusters(root: Path = Path("/sys/devices/system/cpu")) -> tuple[tuple[int, ...], ...]:
    """The online CPUs, by kind of core, from little to big: `((0, 1, 2, 3), (4, 5, 6), (7,))`.

    One group if all are alike or the system does not say; empty without `root`. Phones switch cores off and on, so
    call this again before every use.
    """
    cpus = _online(root)
    for file in _STRENGTH_FILES:
        strength = {cpu: _number(root / f"cpu{cpu}" / file) for cpu in cpus}
        kinds = sorted({value for value in strength.values() if value is not None})
        if None not in strength.values() and len(kinds) > 1:
            return tuple(tuple(cpu for cpu in cpus if strength[cpu] == kind) for kind in kinds)
    return (cpus,) if cpus else ()


def _online(root: Path) -> tuple[int, ...]:
    present = sorted(int(path.name[3:]) for path in root.glob("cpu[0-9]*") if path.name[3:].isdecimal())
    # The first core often has no file `online`: it cannot be switched off.
    return tuple(cpu for cpu in present if _number(root / f"cpu{cpu}" / "online") != 0)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
