"""One attempt to run a program on a device. The program's report is stored on the device, so that a lost connection
loses nothing."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.remote.remote_shell import BOOT_ID, OUTPUT_LIMIT_BYTES, RemoteShell
from workers.devices.shell import TAIL_BYTES, outcome_text, quoted

STDERR_LIMIT_BYTES = 2**20
"""The limit (bytes) of a program's stderr; the end of it is kept."""
SIGNALS = range(129, 129 + 64)
"""The exit codes with which a shell reports a program that a signal ended: 128 + signal."""
# Our scripts end with these exit codes if there is no report. They are neither signals nor the shell's own exit codes.
_NOT_STARTED, _OTHER_BOOT, _NO_END = 93, 94, 95

COLLECT = f"""{{ read -r boot <{BOOT_ID}; read -r pid was <"$d"/started || exit {_NOT_STARTED}
[ "$was" = "$boot" ] || {{ rm -rf "$d"; exit {_OTHER_BOOT}; }}
until read -r s <"$d"/end; do
    kill -s 0 -- -$pid || read -r s <"$d"/end || exit {_NO_END}
    sleep 0.5
done; }} 2>/dev/null
"""
"""Shell commands that wait until the program in folder `$d` has ended. Then the program's exit code is in `$s`, the
boot id in `$boot`. They poll seldom, because each `sleep` is a process that runs beside the measured one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a program, and the boot of the device in which the program ended."""

    boot_id: str
    completed: Completed


class RemoteAttempt(ABC):
    """One attempt to run a program, which is started only once, even if the connection is lost.

    The attempt's folder on the device contains `started` (process id and boot id), the program's output files `out` and
    `err`, and finally `end`, the exit code.
    """

    def __init__(self, remote: RemoteShell, name: str, script: str, shown: str) -> None:
        """Prepare the attempt. `name`: the name of its folder; `script`: the program with its arguments, quoted for a
        shell; `shown`: the program's name in messages."""
        self.name = name
        self._remote = remote
        self._script = script
        self._shown = shown

    @abstractmethod
    def run(self, seconds: float) -> Report:
        """Wait for the program's end; if the connection is lost, connect again and collect the report.

        Raises `DeadlineError` after `seconds`, and `DeviceError` if it is unknown how the program ended.
        """

    def end(self) -> str:
        """Kill the program with everything that it started, and delete its report. Return the end of the program's
        output.

        Raises `DeviceError`: `orphan` if the program does not end, since nothing may be measured while it runs.
        """
        folder = self._folder
        started, boot, out, err = self._remote.sections(
            f"cat {folder}/started",
            f"cat {BOOT_ID}",
            *(f"tail -c {TAIL_BYTES} {folder}/{stream}" for stream in ("out", "err")),
        )
        pid, _, started_in = started.strip().partition(" ")
        # After a reboot the program no longer runs, and another process may have its id.
        if started_in.strip() == boot.strip():
            is_known = re.fullmatch(r"[0-9]{1,9}", pid) is not None
            if (is_known and not self._remote.kill(int(pid), group=True)) or not self._remote.kill_marked(self.name):
                raise DeviceError(
                    "orphan",
                    f"{self._remote.name}: {self._shown}, whose connection was lost, cannot be killed",
                    f"restart the {self._remote.noun}",
                )
        self._remote.checked(f"rm -rf {folder}")
        return (err or out).strip()

    @property
    def _folder(self) -> str:
        return attempt_folder(self._remote, self.name)

    def _report_of(self, exit_code: int, boot_id: str, stdout: bytes, stderr: bytes) -> Report:
        """Return the report of a program with this output. Raises `DeviceError` if the program printed too much."""
        if len(stdout) > OUTPUT_LIMIT_BYTES:
            raise DeviceError(
                "too_much_output",
                f"{self._remote.name}: {self._shown} printed more than {OUTPUT_LIMIT_BYTES / 1e6:.0f} MB",
                "write large output to a file, and pull that",
            )
        return Report(boot_id=boot_id, completed=Completed(exit_code=exit_code, stdout=stdout, stderr=stderr))

    def _no_report(self, done: Completed) -> DeviceError:
        """Return the error for a script of ours that ended without a report."""
        name, shown = self._remote.name, self._shown
        match done.exit_code:
            case _ if done.exit_code == _OTHER_BOOT:
                return DeviceError("rebooted", f"{name} rebooted while {shown} ran")
            case _ if done.exit_code == _NOT_STARTED:
                # The job has not failed: it has not begun.
                return DeviceError("offline", f"{name} was disconnected before {shown} was started")
            case _ if done.exit_code == _NO_END:
                return DeviceError("no_exit_code", f"{name}: {shown} ended without an exit code")
        if b"no space" in done.stderr.lower():
            return self._remote.no_space(f"{shown} has no room for its report")
        return DeviceError("no_exit_code", f"{name}: {shown} left no report{outcome_text(done)}")


def attempt_folder(remote: RemoteShell, name: str = "") -> str:
    """Return the folder of an attempt, or of all attempts, quoted for a shell."""
    return quoted([str(remote.folder() / "attempts" / name)])
