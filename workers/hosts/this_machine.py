"""The agent of this machine, with its devices, its files and its versions."""

import platform
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Thread

from sweeps.device_facts import DeviceFacts
from sweeps.errors import DeviceError, StoreError
from sweeps.quarantine import QuarantineBook
from sweeps.spec import built_in, catalog
from sweeps.whole_file import write_whole
from workers.devices import registry
from workers.hosts.agent import HostAgent, Identity
from workers.hosts.device_slot import Worker
from workers.hosts.interface import HOST_PROTOCOL, Versions
from workers.hosts.inventory import Inventory
from workers.hosts.leases import Leases
from workers.hosts.result_buffer import Outbox
from workers.plan_inputs import device_facts
from workers.runtimes import registry as runtimes

_KNOWN_S = 60.0
"""The time that devices have to report their facts; less than a host may take to start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The configuration that a person gave a host, and the folder of the host's files."""

    name: str
    state: Path
    units: tuple[str, ...] = ()
    """The devices besides the attached phones, which are found by themselves: `local`, `fake:hot`."""
    tags: tuple[str, ...] = ()

    @property
    def node(self) -> Path:
        """Return the folder of artifacts and device files."""
        return self.state / "node"

    @property
    def outbox(self) -> Path:
        return self.state / "outbox.sqlite"

    def machine(self) -> str:
        """Return the identifier of the state folder, and so of the host. It stays the same over restarts and new
        network addresses."""
        file = self.state / "host.id"
        self.state.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            write_whole(file, secrets.token_hex(4))
        return file.read_text(encoding="ascii").strip()

    def next_boot(self, now_ms: int) -> int:
        """Return the number of a new start of the agent: larger than the numbers of all earlier starts, even if the
        clock was set back meanwhile. `now_ms`: since 1970."""
        file = self.state / "host.boot"
        last = 0
        with suppress(OSError, ValueError):
            last = int(file.read_text(encoding="ascii"))
        boot = max(now_ms, last + 1)
        with suppress(OSError):  # a full disk keeps no agent from starting
            write_whole(file, str(boot))
        return boot


def versions() -> Versions:
    """Return the versions of this machine."""
    return Versions(
        edgesweep=_version("edgesweep"),
        protocol=HOST_PROTOCOL,
        python=platform.python_version(),
        ray=_version("ray"),
    )


def agent_of(config: HostConfig, boot: int, start: Callable[[DeviceFacts, Path], Worker]) -> HostAgent:
    """Start the agent, which knows the devices that report their facts within a minute. `start` gets a device and the
    host's folder, and returns a worker.

    Raises `StoreError` if the agent's results cannot be stored.
    """
    own_versions = versions()
    config.node.mkdir(parents=True, exist_ok=True)
    outbox = Outbox(config.outbox, own_versions.edgesweep)
    facts = partial(_facts, folder=config.node)
    inventory = Inventory(registry.listed, facts, time.monotonic, config.units, _spawn, _kept_out)
    inventory.refresh()
    inventory.wait(_KNOWN_S)
    tools = tuple(registry.tools().items())
    return HostAgent(
        Identity(
            name=config.name, machine=config.machine(), boot=boot, versions=own_versions, tags=config.tags, tools=tools
        ),
        config.node,
        inventory,
        Leases(time.monotonic, outbox.next_epoch),
        outbox,
        lambda facts: start(facts, config.node),
        time.time,
        _spawn,
    )


def check_units(units: tuple[str, ...]) -> None:
    """Refuse a name that does not name a single device, with a `DeviceError`."""
    for name in units:
        entry = catalog.device(name)
        if entry is None or name == f"{entry.name}:*":
            raise DeviceError(
                "unknown_device", f"{name!r} names no single device", "phones are found by themselves; else: local"
            )


def _spawn(call: Callable[[], None]) -> None:
    Thread(target=call, daemon=True).start()


def _facts(name: str, folder: Path) -> DeviceFacts:
    references: dict[str, str] = {}
    for runtime in built_in.BUILT_IN_NAMES:
        references |= runtimes.get(runtime).references()
    # Drivers plan for the programs on the device, so every program that this machine has is brought there.
    return device_facts(name, folder, references, catalog.runtimes(), lambda _: None)


def _kept_out(facts: DeviceFacts) -> DeviceError | None:
    """Return the error for a device that a person quarantined on its own host: that quarantine holds for all drivers. A
    quarantine by EdgeSweep, from a sweep of this machine, holds only for that driver: its canary needs the device."""
    with suppress(StoreError):  # a file that cannot be read keeps no device out
        quarantine = QuarantineBook().quarantine(facts.device_id)
        if quarantine is not None and quarantine.by == "person":
            way_out = f"edgesweep devices readmit {facts.name}, on its host"
            return DeviceError("quarantined", f"{facts.name} is quarantined {quarantine.text}", way_out)
    return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
