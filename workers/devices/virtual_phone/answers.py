"""The answers of a virtual phone about its properties, battery and heat: the contents of files that the programs in
`bin/` print."""

import platform
import uuid
from collections.abc import Mapping
from pathlib import Path


class Answers:
    """The files in a phone's folder that hold its answers. Each method changes the phone's answers from now on."""

    def __init__(self, folder: Path, serialno: str, *, has_fixed_performance: bool) -> None:
        self.serialno = serialno
        """The phone's own serial number: `ro.serialno`."""
        self._folder = folder
        self._has_fixed_performance = has_fixed_performance
        self._temp_c, self._percent, self._status = 25.0, 80, 0

    @property
    def fixed_performance(self) -> bool:
        return (self._folder / "fixed_performance").read_text().strip() == "true"

    def write_all(self) -> None:
        """Write the answers of a phone that was just switched on. The folder must not exist."""
        for part in ("properties", "dumpsys"):
            (self._folder / part).mkdir(parents=True)
        for name, value in _properties(self.serialno).items():
            self.set_property(name, value)
        self.end_fixed_performance()
        self.boot()
        self._write_services()

    def set_property(self, name: str, value: str | None) -> None:
        """Set the value that `getprop` prints for `name`; `None` removes the property."""
        _put(self._folder / "properties" / name, value)

    def say(self, service: str, text: str | None) -> None:
        """Set the output of `dumpsys service`; `None` removes the service."""
        _put(self._folder / "dumpsys" / service, text)

    def end_fixed_performance(self) -> None:
        """Switch the fixed-performance mode off, as a restart does. A phone without the mode stays without it."""
        if self._has_fixed_performance:
            (self._folder / "fixed_performance").write_text("false\n")

    def boot(self) -> None:
        """Set a new boot id."""
        # Overwrite the file in place: it is bind-mounted in the phone.
        with (self._folder / "boot_id").open("r+" if (self._folder / "boot_id").exists() else "w") as file:
            file.write(f"{uuid.uuid4()}\n")

    def _write_services(self) -> None:
        lines = ["Current Battery Service state:", "  AC powered: false", "  USB powered: true", "  present: true"]
        lines += [f"  level: {self._percent}", "  scale: 100", f"  temperature: {round(10 * self._temp_c)}"]
        self.say("battery", "\n".join([*lines, "  technology: Li-ion", ""]))
        self.say("thermalservice", f"IsStatusOverride: false\nThermal Status: {self._status}\nHAL Ready: true\n")


def _put(path: Path, text: str | None) -> None:
    """Write the file, or delete it if `text` is `None`."""
    if text is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(text, encoding="utf-8")


def _properties(serialno: str) -> Mapping[str, str]:
    """Return properties that say openly that the phone is virtual. The ABI is that of the host, whose programs it
    runs."""
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
