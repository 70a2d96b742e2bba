"""The supervisor of a device host: starts the Ray node and the agent of this machine again whenever one of them
ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import psutil

from sweeps.errors import ClusterError
from sweeps.locks import GLANCE_S, LockedError, locked, owner
from workers.hosts.access import check_free, check_head, check_token, environment, own_address, split_address
from workers.hosts.node import Node, NodeOptions, listening_on
from workers.hosts.this_machine import HostConfig

LEAVE_S = 120.0
"""The time that running blocks have to end when a host leaves."""
_END_S = 20.0
_AGAIN_S = 2.0
_POLL_S, _ADDRESS_S = 0.2, 3.0
_ONLY_HERE = ("127.", "::1:", "::ffff:127.")
"""The beginnings of addresses that no other computer reaches."""


@contextmanager
def only_host(state: Path) -> Iterator[None]:
    """Hold the lock that keeps a second host out of a state folder. Raises `ClusterError`, which names the process of
    the present host, or says why the folder cannot have a lock."""
    file = _pid_file(state)
    with ExitStack() as stack:
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = stack.enter_context(locked(file, wait_s=GLANCE_S))
        except LockedError as error:
            raise ClusterError(
                f"this machine is a device host already (process {error.process or 'unknown'})",
                "edgesweep host leave ends that; for a second one give another folder with --state",
            ) from None
        except OSError as error:
            raise ClusterError(
                f"{file} cannot be locked ({error})",
                "give a folder of this user, on a file system that has locks, with --state",
            ) from error
        try:
            yield
        finally:
            # Before the next host has written its own id, `leave` must not signal the process that has this one then.
            with suppress(OSError):
                os.truncate(lock, 0)


def leave(state: Path) -> bool:
    """Ask the host of this folder to release its devices and to end; return when it has ended. Return `False` if there
    is none."""
    pid = owner(_pid_file(state))
    if not pid:
        return False
    os.kill(pid, signal.SIGTERM)
    while owner(_pid_file(state)) is not None:
        time.sleep(_POLL_S)
    return True


def serve(
    options: NodeOptions,
    config: HostConfig,
    stop: Callable[[], bool],
    tell: Callable[[str], object],
    guard: Callable[[NodeOptions], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Run a host until `stop()` returns true. Without `options.ip` this machine's address is determined anew for each
    node. `guard` returns the context in which the nodes of one address run. Raises `ClusterError` if the first start
    fails; later starts are tried again."""
    with ExitStack() as guarding:
        _serve_within(guarding, options, config, stop, tell, guard)


def _serve_within(
    guarding: ExitStack,
    options: NodeOptions,
    config: HostConfig,
    stop: Callable[[], bool],
    tell: Callable[[str], object],
    guard: Callable[[NodeOptions], AbstractContextManager[object]],
) -> None:
    started, guarded = False, ""
    while not stop():
        try:
            node_options = replace(options, label=token_hex(4), ip=options.ip or own_address(options.head))
            if guarded != node_options.ip:
                # The guard is not entered again for each node: a person may have to be present when rules are created.
                guarded = ""
                guarding.close()
                guarding.enter_context(guard(node_options))
                guarded = node_options.ip
            if node_options.is_head:
                check_free(node_options.head)
            else:
                check_head(node_options.head)
                check_token(node_options.head, node_options.token_file, node_options.ip)
            node = Node(node_options)
            try:
                started = _serve_on(node, node_options, config, stop, tell, started, may_move=not options.ip)
            finally:
                node.end()
        except ClusterError as error:
            if not started:
                raise
            tell(error.one_line)
        if not stop():
            tell("Ray's node on this machine has ended: it is started again")
            time.sleep(_AGAIN_S)


def _serve_on(
    node: Node,
    options: NodeOptions,
    config: HostConfig,
    stop: Callable[[], bool],
    tell: Callable[[str], object],
    started: bool,
    *,
    may_move: bool,
) -> bool:
    """Serve until the node ends, `stop()` returns true, or, if it `may_move`, the node's address no longer belongs to
    this machine. Return whether the agent ever ran."""
    moved, look_s = "", 0.0
    while node.alive() and not stop() and not moved:
        with _keeper(node, options, config) as keeper:
            first_words = _first_words(keeper)
            if "error" in first_words:
                error = ClusterError(str(first_words["error"]), str(first_words["next_step"]))
                if not started:
                    raise error
                tell(error.one_line)
                time.sleep(_AGAIN_S)
                continue
            check_ports(options, node.listening(keeper.pid))
            words = _joined(options, config, first_words["devices"], restarted=started)
            # The ports are reported also of a node that was started again: they may be others.
            tell(f"{words}\n{listening_on(node, keeper.pid)}")
            started = True
            while node.alive() and keeper.poll() is None and not stop() and not moved:
                time.sleep(_POLL_S)
                if may_move and time.monotonic() >= look_s:
                    look_s = time.monotonic() + _ADDRESS_S
                    moved = _address_instead(options)
            if stop() and node.alive():
                _end_in_order(keeper)
        if moved:
            tell(f"this machine has the address {moved} now, and no longer {options.ip}")
        elif node.alive() and not stop():
            tell("this host's agent has ended: it is started again")
    return started


def _address_instead(options: NodeOptions) -> str:
    """Return the address that this machine now has on its route to the head, if the address of the node is gone. Empty
    if it is not gone, or there is no other one: a link that is down may come back as it was."""
    addresses = {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}
    with suppress(ClusterError):
        if options.ip not in addresses:
            return own_address(options.head)
    return ""


@contextmanager
def _keeper(node: Node, options: NodeOptions, config: HostConfig) -> "Iterator[subprocess.Popen[str]]":
    request = {
        "head": options.head,
        "token_file": str(options.token_file),
        "label": options.label,
        "folder": str(node.folder),
        "name": config.name,
        "state": str(config.state),
        "units": config.units,
        "tags": config.tags,
    }
    with subprocess.Popen(  # an argument list; no shell
        [sys.executable, "-m", "workers.hosts.agent_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | environment(options.token_file, options.ip),
        start_new_session=True,
    ) as keeper:
        try:
            with suppress(BrokenPipeError):
                assert keeper.stdin is not None
                keeper.stdin.write(json.dumps(request) + "\n")
                keeper.stdin.flush()
            yield keeper
        finally:
            keeper.kill()


def _first_words(keeper: "subprocess.Popen[str]") -> dict[str, Any]:
    assert keeper.stdout is not None
    line = keeper.stdout.readline()
    if not line:
        return {"error": "the agent of this host ended at once", "next_step": "check free memory and disk"}
    words: dict[str, Any] = json.loads(line)
    return words


def _end_in_order(keeper: "subprocess.Popen[str]") -> None:
    assert keeper.stdin is not None
    with suppress(OSError):
        keeper.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        keeper.wait(LEAVE_S + _END_S)


def _joined(options: NodeOptions, config: HostConfig, devices: list[str], *, restarted: bool) -> str:
    device_list = ", ".join(devices) or "no device yet: phones are noticed when they are plugged in"
    return f"{config.name} is a host of the lab at {options.head}{' again' if restarted else ''}: {device_list}"


def check_ports(options: NodeOptions, listening: Iterable[tuple[int, str]]) -> None:
    """Refuse a node with a `ClusterError` if other computers reach it on a port outside of its range. `listening`: as
    in `Node`."""
    lab_port = split_address(options.head)[1] if options.is_head else None
    beside = [
        text
        for port, text in listening
        if options.ports and port not in options.ports and port != lab_port and not text.startswith(_ONLY_HERE)
    ]
    if beside:
        raise ClusterError(
            f"Ray listens outside of the ports {options.ports}: {', '.join(beside)}",
            "no rule guards that: find what makes Ray open it (a plugin, a package), or start without --ports and "
            "--firewall and guard it yourself",
        )


def _pid_file(state: Path) -> Path:
    return state / "host.pid"
