"""The shell of a device, whatever the transport: each of our short scripts gets an answer or a `DeviceError`."""

import secrets
from abc import ABC, abstractmethod
from pathlib import PurePosixPath
from typing import ClassVar

from sweeps.errors import DeviceError
from workers.devices.interface import Completed
from workers.devices.shell import outcome_text

OUTPUT_LIMIT_BYTES = 64 * 2**20
"""The greatest accepted length of a program's stdout (bytes)."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class DeadlineError(Exception):
    """The deadline passed."""


class RemoteShell(ABC):
    """One device. A subclass for a transport says how the device's shell gets a script; the rest is the same for all
    transports."""

    name: str
    """The device's name as sweep files write it, for messages."""
    noun: ClassVar[str]
    """The word for the device in messages: `phone` or `board`."""
    processes_script: ClassVar[str]
    """The script that prints what `workers.devices.linux.competing.parse_processes` reads."""

    @abstractmethod
    def folder(self) -> PurePosixPath:
        """Return the absolute path of the folder with all our files on the device. Raises `DeviceError`."""

    @abstractmethod
    def ensure_contact(self) -> None:
        """Contact the device before a program is timed: the first contact takes longer. Raises `DeviceError`."""

    @abstractmethod
    def shell(self, script: str) -> Completed:
        """Run a short script of ours. If no answer arrives, that is the fault of the device, not of a job. Raises
        `DeviceError`."""

    def sections(self, *commands: str) -> list[str]:
        """Return the output of each command, all run in one exchange. Exit codes are ignored: a device may lack some
        files."""
        # The output cannot contain this separator by chance. The command line of the shell has it in two parts.
        first, second = secrets.token_hex(8), secrets.token_hex(8)
        done = self.shell(f"\necho {first}''{second}\n".join(f"({command}) 2>/dev/null" for command in commands))
        sections = done.stdout.decode("utf-8", "replace").split(f"{first}{second}\n")
        if len(sections) != len(commands):
            raise DeviceError(
                "no_exit_code",
                f"{self.name} answered {len(sections)} of {len(commands)} commands{outcome_text(done)}",
            )
        return sections

    def checked(self, script: str) -> None:
        """Run a script that must end with exit code 0. Raises `DeviceError`."""
        done = self.shell(script)
        if done.exit_code != 0:
            raise DeviceError("os_error", f"{self.name}: {script[:200]} failed{outcome_text(done)}")

    def kill(self, pid: int, *, group: bool = False) -> bool:
        """Kill a process, or the process group that it leads. Return `False` if it keeps running. Raises
        `DeviceError`."""
        if pid < 2:
            # `kill -- -1` would kill every process.
            return False
        target = f"-{pid}" if group else str(pid)
        # Killed processes remain as zombies until they are reaped.
        alive = f"kill -s 0 -- {target} 2>/dev/null"
        wait = f"i=0; while {alive} && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done; ! {alive}"
        return self.shell(f"kill -s KILL -- {target} 2>/dev/null; {wait}").exit_code == 0

    def kill_marked(self, attempt: str = "") -> bool:
        """Kill the processes that an attempt, or any attempt, started and that left its process group. Return `False`
        if some keep running.

        A transport that does not mark its programs kills nothing. Raises `DeviceError`.
        """
        return True

    def cmdline_script(self, pid: int) -> str:
        """Return the script that prints the command line of a process that this user could kill."""
        return f"cat /proc/{pid}/cmdline"

    def no_space(self, why: str) -> DeviceError:
        """Return the error for a device whose storage is full."""
        return DeviceError(
            "no_space",
            f"{self.name}: {why}",
            f"free storage on the {self.noun}; this deletes EdgeSweep's files there: edgesweep devices clean "
            f"{self.name}",
        )
