"""What a virtual phone tells of itself: properties, battery, heat. They are files that the programs in `bin/` print."""

import platform
import uuid
from collections.abc import Mapping
from pathlib import Path


class Answers:
    """The files in a phone's folder. Each method changes what the phone answers from now on."""

    def __init__(self, folder: Path, serialno: str, *, has_fixed_performance: bool) -> None:
        self.serialno = serialno
        """What the phone calls itself: `ro.serialno`."""
        self._folder = folder
        self._has_fixed_performance = has_fixed_performance
        self._temp_c, self._percent, self._status = 25.0, 80, 0

    @property
    def fixed_performance(self) -> bool:
        return (self._folder / "fixed_performance").read_text().strip() == "true"

    def write_all(self) -> None:
        """As of a phone that was just switched on. The folder must not exist."""
        for part in ("properties", "dumpsys"):
            (self._folder / part).mkdir(parents=True)
        for name, value in _properties(self.serialno).items():
            self.set_property(name, value)
        if self._has_fixed_performance:
            (self._folder / "fixed_performance").write_text("false\n")
        self.boot()
        self.heat(self._temp_c)

    def set_property(self, name: str, value: str | None) -> None:
        """What `getprop` tells of `name`; `None` takes the property away."""
        path = self._folder / "properties" / name
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(value, encoding="utf-8")

    def heat(self, temp_c: float, thermal_status: int = 0) -> None:
        """To a battery temperature and a thermal status, from 0 (none) to 6 (shutdown)."""
        self._temp_c, self._status = temp_c, thermal_status
        self._tell()

    def drain(self, percent: int) -> None:
        """The battery to so much of its charge."""
        self._percent = percent
        self._tell()

    def say(self, service: str, text: str | None) -> None:
        """What `dumpsys service` prints, until the next `heat` or `drain`; `None`: there is no such service."""
        path = self._folder / "dumpsys" / service
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")

    def refuse_fixed_performance(self, words: str | None) -> None:
        """With these, from now on, whatever is asked of the mode; `None`: it is switched again."""
        path = self._folder / "power_says"
        path.write_text(words, encoding="utf-8") if words is not None else path.unlink(missing_ok=True)

    def boot(self) -> None:
        """A new boot id."""
        # In place: it is mounted over the phone's own.
        with (self._folder / "boot_id").open("r+" if (self._folder / "boot_id").exists() else "w") as file:
            file.write(f"{uuid.uuid4()}\n")

    def _tell(self) -> None:
        lines = ["Current Battery Service state:", "  AC powered: false", "  USB powered: true", "  present: true"]
        lines += [f"  level: {self._percent}", "  scale: 100", f"  temperature: {round(10 * self._temp_c)}"]
        self.say("battery", "\n".join([*lines, "  technology: Li-ion", ""]))
        self.say("thermalservice", f"IsStatusOverride: false\nThermal Status: {self._status}\nHAL Ready: true\n")


def _properties(serialno: str) -> Mapping[str, str]:
    """Of a phone that makes no secret of being virtual. ABI: the host's, whose programs it runs."""
    abi = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}.get(platform.machine(), platform.machine())
    return {
        "ro.serialno": serialno,
        "ro.product.manufacturer": "EdgeSweep",
        "ro.product.model": "Virtual Phone",
        "ro.soc.manufacturer": "Host",
        "ro.soc.model": platform.machine(),
        "ro.product.cpu.abi": abi,
        "ro.build.version.release": "14",
        "ro.build.version.sdk": "34",
        "ro.build.fingerprint": "edgesweep/virtual/phone:14/1/1:user/release-keys",
    }
