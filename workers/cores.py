"""Which CPUs of a machine are alike. Standard library only: the runner asks before it imports anything else."""

from contextlib import suppress
from pathlib import Path

# The scheduler's own figure first; a clock says little across microarchitectures, but it is all that old kernels tell.
_SIGNS = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")


def clusters(root: Path = Path("/sys/devices/system/cpu")) -> tuple[tuple[int, ...], ...]:
    """The CPUs that are switched on, by kind of core, from little to big: `((0, 1, 2, 3), (4, 5, 6), (7,))`.

    One kind where all are alike or the system does not tell; nothing without `root`. Phones switch cores off and on,
    so ask again before every use.
    """
    cpus = _online(root)
    for sign in _SIGNS:
        strength = {cpu: _number(root / f"cpu{cpu}" / sign) for cpu in cpus}
        kinds = sorted({value for value in strength.values() if value is not None})
        if None not in strength.values() and len(kinds) > 1:
            return tuple(tuple(cpu for cpu in cpus if strength[cpu] == kind) for kind in kinds)
    return (cpus,) if cpus else ()


def _online(root: Path) -> tuple[int, ...]:
    present = sorted(int(path.name[3:]) for path in root.glob("cpu[0-9]*") if path.name[3:].isdecimal())
    # The first core often has no switch.
    return tuple(cpu for cpu in present if _number(root / f"cpu{cpu}" / "online") != 0)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
