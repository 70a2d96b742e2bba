"""The start of this machine's agent on its Ray node, in place of an earlier agent."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import ray
from ray import exceptions

from sweeps.errors import ClusterError, DeviceError, EdgeSweepError
from workers.hosts.actors import HostActor
from workers.hosts.cluster import NAMESPACE, Hosts, RemoteHost, Shared
from workers.hosts.device_process import CLOSE_S
from workers.hosts.host_reachability import Link
from workers.hosts.interface import Host
from workers.hosts.node import NODE_LABEL
from workers.hosts.this_machine import HostConfig

HostT = TypeVar("HostT", bound=Host)
_START_S = 120.0


def raise_agent(config: HostConfig, label: str) -> tuple[RemoteHost, Callable[[float], None]]:
    """Start this machine's agent on its node, in place of an earlier one. Return the agent, and a function that ends it
    in order.

    Raises `ClusterError` if another computer of the lab has its name.
    """
    boot, machine = config.next_boot(time.time_ns() // 10**6), config.machine()
    for host in earlier_starts(Hosts().find(), config.name, machine):
        ray.kill(host.actor)
    actor_class: Any = HostActor
    actor = actor_class.options(
        name=f"host:{config.name}:{machine}:{boot}:{label}",
        namespace=NAMESPACE,
        lifetime="detached",
        label_selector={NODE_LABEL: label},
    ).remote(config, boot)
    try:
        ray.get(actor.check.remote(), timeout=_START_S)
        ray.get(actor.hello.remote(), timeout=_START_S)
    except exceptions.RayError as error:
        ray.kill(actor)
        raise not_started(error) from error

    def end(timeout_s: float) -> None:
        with suppress(exceptions.RayError):
            ray.get(actor.leave.remote(timeout_s), timeout=timeout_s + 2 * CLOSE_S)
        ray.kill(actor)

    return RemoteHost(actor, config.name, Shared(), Link(None)), end


def not_started(error: exceptions.RayError) -> ClusterError:
    """Return the error to show to a person, in EdgeSweep's own words if it was the agent that refused."""
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    message, step = (cause.message, cause.next_step) if isinstance(cause, EdgeSweepError) else (str(cause)[:300], "")
    return ClusterError(f"the agent of this host does not start: {message}", step)


def earlier_starts(hosts: Iterable[tuple[str, HostT]], name: str, machine: str) -> list[HostT]:
    """Return the agents of this machine that are still in the lab. `hosts`: as in `Hosts.find`.

    Raises `ClusterError` if a host of this name that answers is another machine.
    """
    earlier = []
    for key, host in hosts:
        _, host_name, its_machine, *_ = key.split(":")
        if host_name != name:
            continue
        if its_machine == machine:
            earlier.append(host)
            continue
        with suppress(DeviceError):  # a host that does not answer may be this computer with a new folder
            devices = len(host.hello().devices)
            raise ClusterError(
                f"another computer of the lab is called {name} (with {devices} devices)",
                "give this one another name: --name NAME",
            )
    return earlier
