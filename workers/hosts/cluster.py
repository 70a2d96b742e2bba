"""The lab on Ray, as a process sees it that joins the lab: the driver's sides of the hosts.

The environment of `workers.hosts.node` must be set before this module is imported.
"""

import logging
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray import exceptions
from ray._private import worker

from sweeps.errors import ClusterError, DeviceError, EdgeSweepError, HostError, in_one_line
from sweeps.records import Failed
from workers.artifacts import PackedArtifact
from workers.hosts.access import wrong_token
from workers.hosts.away import LOST, away
from workers.hosts.device_process import CLOSE_S
from workers.hosts.handshake import About, greet
from workers.hosts.host_reachability import Address, Link
from workers.hosts.interface import Beat, Granted, Hello, Hint, Queued
from workers.hosts.node import NODE_LABEL
from workers.hosts.this_machine import versions
from workers.measure.crossing import parted
from workers.measure.device_runner import AnswerT, Request

NAMESPACE = "edgesweep"
_ANSWER_S = 5.0
_RESULT_S = 60.0
"""The time that a stored result has to cross the network."""
_TURN_S = 0.05
"""The time that the thread which listens to the host has to get its turn."""
_FIND_S = 5.0
_UNANSWERED_S = 1.0
_NODE_ENDED = ("has been marked dead", "Raylet is terminated")
_SHARED = 8
"""The number of artifacts and image sets that stay in this node's object store, so that each crosses once to each
host."""


def connect(head: str, token_file: Path, folder: Path) -> None:
    """Join the lab as a driver, through the node of this machine that uses this folder. Raises `ClusterError`."""
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    pass_on_what_ray_says()
    try:
        ray.init(address=head, namespace=NAMESPACE, _temp_dir=str(folder), **quiet)
    except ConnectionError as error:
        raise wrong_token(head, token_file) from error
    except Exception as error:  # Ray raises whatever its parts raise
        raise ClusterError(f"the lab at {head} cannot be used: {str(error)[:300]}", "install its versions") from error
    node = worker.global_worker
    node.gcs_error_subscriber = Patient(node.gcs_error_subscriber, node.threads_stopped)


class Patient:
    """A subscriber that polls the head for Ray's reports, as Ray's thread does, but pauses while the head does not
    answer: otherwise Ray's thread would keep a core of this computer busy for as long as a network is cut."""

    def __init__(self, subscriber: Any, ended: threading.Event) -> None:
        self._subscriber = subscriber
        self._ended = ended

    def subscribe(self) -> None:
        self._subscriber.subscribe()

    def poll(self) -> tuple[Any, Any]:
        """Return the id and the message of a report; `None` twice, a second later, if there is no answer."""
        report: tuple[Any, Any] = self._subscriber.poll()
        if report[1] is None:
            self._ended.wait(_UNANSWERED_S)
        return report

    def close(self) -> None:
        self._subscriber.close()


def pass_on_what_ray_says() -> None:
    """Send Ray's reports to stderr: Ray prints them on stdout, whatever its settings, and a command may print a
    document there. Reports that a node ended are left out: the caller that waits for a host reports that."""

    def pass_on(data: Mapping[str, Any], ignore_prefix: bool) -> None:
        for line in data["lines"]:
            if not any(words in line for words in _NODE_ENDED):
                sys.stderr.write(f"Ray: {line}\n")

    worker.print_to_stdstream = pass_on


def disconnect() -> None:
    ray.shutdown()


class Hosts:
    """The hosts that have joined the lab. Keeps one `RemoteHost` for each of them, for as long as the host is in the
    lab."""

    def __init__(self) -> None:
        self._shared = Shared()
        self._hosts: dict[str, RemoteHost] = {}

    def find(self) -> list[tuple[str, "RemoteHost"]]:
        """Return the hosts of the lab, with their keys. Raises `DeviceError("head_away", ...)` if the head does not
        answer."""
        answers: list[tuple[list[str], dict[str, Address]]] = []
        # Ray itself would wait for the head as long as it is away.
        asking = threading.Thread(target=_ask_names, args=(self._hosts.keys(), answers), daemon=True)
        asking.start()
        asking.join(_FIND_S)
        if not answers:
            raise HostError(
                "head_away",
                "the lab's head",
                "it does not answer",
                "a sweep waits for it, for two minutes: check it and its network, then run the same command again",
            )
        names, addresses = answers[0]
        for name in names:
            if name not in self._hosts:
                with suppress(ValueError):  # the actor ended meanwhile
                    link = Link(addresses.get(name.split(":")[-1]))
                    actor = ray.get_actor(name, NAMESPACE)
                    self._hosts[name] = RemoteHost(actor, name.split(":")[1], self._shared, link)
        self._hosts = {name: host for name, host in self._hosts.items() if name in names}
        return list(self._hosts.items())


class RemoteHost:
    """The driver's side of a host's agent: a `workers.hosts.interface.Host`."""

    def __init__(self, actor: Any, name: str, shared: "Shared", link: Link) -> None:
        self.actor = actor
        self._name = name
        self._shared = shared
        self._link = link
        self._is_like_this = False
        """Tells whether the host is known to have this driver's versions: they do not change between two starts of a
        host."""
        self._beating: Any = None
        """The reference to the answer to the last `beat`, unless that failed."""
        self.dead = False
        """Tells whether the agent has ended for good."""

    def hello(self) -> Hello:
        """Return the host's report about itself; of a host of another version only its identity."""
        if self._is_like_this:
            return self._hello()
        hello, self._is_like_this = greet(self._name, self._about, self._hello, versions())
        return hello

    def _about(self) -> About:
        about: About = self._call("about")
        return about

    def _hello(self) -> Hello:
        hello: Hello = self._call("hello")
        return hello

    def acquire(self, device_id: str, who: str) -> Granted | Queued:
        answer: Granted | Queued = self._call("acquire", device_id, who)
        return answer

    def beat(self, who: str, epochs: Mapping[str, int], change: int, timeout_s: float) -> Beat:
        try:
            self._beating = self._send("beat", who, dict(epochs), change, timeout_s)
            beat: Beat = self._got(self._beating, timeout_s + _ANSWER_S)
        except BaseException:
            self._beating = None
            raise
        # The reference to the answer is kept until the next call is sent: the caller may have to wait before it can
        # record that it heard the host.
        return beat

    def has_answered(self) -> bool:
        beating = self._beating
        return beating is not None and bool(ray.wait([beating], timeout=0)[0])

    def release(self, device_id: str, epoch: int) -> None:
        self._call("release", device_id, epoch, within_s=CLOSE_S + _ANSWER_S)

    def free(self, device_id: str) -> str:
        who: str = self._call("free", device_id, within_s=CLOSE_S + _ANSWER_S)
        return who

    def missing(self, build_keys: Collection[str]) -> frozenset[str]:
        keys: frozenset[str] = self._call("missing", tuple(build_keys))
        return keys

    def receive(self, packed: PackedArtifact) -> None:
        reference = self._shared.put(packed.build_key, packed)
        self._wait(self._send("receive", reference))

    def run(
        self, device_id: str, epoch: int, request: Request[AnswerT], acknowledged: Sequence[str] = ()
    ) -> AnswerT | Failed:
        rest, shared = parted(request, self._shared.put)
        reference = self._send("run", (device_id, epoch), rest, tuple(acknowledged), **shared)
        answer: AnswerT | Failed = self._wait(reference)
        return answer

    def acknowledge(self, results: Sequence[str]) -> None:
        self._call("acknowledge", tuple(results))

    def hint(self, hint: Hint) -> None:
        self._call("hint", hint)

    def _call(self, method: str, *values: object, within_s: float = _ANSWER_S) -> Any:
        return self._got(self._send(method, *values), within_s)

    def _send(self, method: str, *values: object, **more: object) -> Any:
        if not self._link.is_open():
            raise away(self._name, LOST)
        return getattr(self.actor, method).remote(*values, **more)

    def _wait(self, reference: Any) -> Any:
        """Wait for an answer as long as the host answers the beats of the thread that follows it."""
        # Wait until the host counts as silent; if it was heard meanwhile, wait again. Looking more often finds nothing
        # sooner.
        while not ray.wait([reference], timeout=max(_TURN_S, self._link.silent_in_s()))[0]:
            if self._link.silent_in_s() <= 0 and not self.has_answered():
                raise away(self._name, LOST)
        return self._got(reference, _RESULT_S)

    def _got(self, reference: Any, within_s: float) -> Any:
        try:
            answer = ray.get(reference, timeout=within_s)
        except exceptions.RayTaskError as error:
            self._link.heard()
            raise error_of(self._name, error.cause) from error
        except exceptions.ActorDiedError as error:
            self.dead = True
            raise away(self._name, "its agent has ended") from error
        except exceptions.RayError as error:
            if not isinstance(error, exceptions.GetTimeoutError):
                self._link.lost()
            raise away(self._name, LOST) from error
        self._link.heard()
        return answer


def error_of(name: str, cause: BaseException) -> EdgeSweepError:
    """Return the error that a host's agent raised: one of EdgeSweep's, or an unexpected one in one line."""
    if isinstance(cause, EdgeSweepError):
        return cause
    return DeviceError("worker_error", f"the host {name}: {in_one_line(cause)}", "see the log of Ray on that host")


class Shared:
    """Ray references to values that are sent to several hosts. The oldest are dropped."""

    def __init__(self) -> None:
        self._references: dict[str, Any] = {}
        self._lock = threading.Lock()

    def put(self, key: str, value: object) -> Any:
        with self._lock:
            if key not in self._references:
                self._references[key] = ray.put(value)
                while len(self._references) > _SHARED:
                    del self._references[next(iter(self._references))]
            return self._references[key]


def _ask_names(known_names: Collection[str], answers: list[tuple[list[str], dict[str, Address]]]) -> None:
    """Find the names of agents; and if some are new, the addresses of all nodes, by label."""
    with suppress(Exception):  # the parts of Ray raise any error; there is no answer then
        actors = ray.util.list_named_actors(all_namespaces=True)
        names = [
            actor["name"] for actor in actors if actor["namespace"] == NAMESPACE and actor["name"].startswith("host:")
        ]
        nodes = ray.nodes() if set(names) - set(known_names) else []
        addresses = {
            node["Labels"][NODE_LABEL]: (node["NodeManagerAddress"], node["NodeManagerPort"])
            for node in nodes
            if NODE_LABEL in node["Labels"]
        }
        answers.append((names, addresses))
