"""The order in which builders take what waits."""

from types import SimpleNamespace
from typing import Any

from sweeps.variant import Variant
from workers.executors.build_queue import BuildQueue
from workers.executors.interface import BuildRequest

INPUTS: Any = SimpleNamespace()
INT8 = Variant(precision="int8", qengine="x86", fuse=True)


def request(key: str, variant: Variant | None = None) -> BuildRequest:
    return BuildRequest(key, variant or Variant(), INPUTS)


def keys(queue: BuildQueue) -> list[str]:
    return [request.build_key for request in queue]


def test_without_ranks_families_stay_together_in_their_order() -> None:
    queue = BuildQueue([request("a"), request("x", INT8), request("b"), request("y", INT8)])
    order = []
    family = None
    while (taken_request := queue.take(family)) is not None:
        family = taken_request.family
        order.append(taken_request.build_key)
    assert order == ["a", "b", "x", "y"]


def test_a_second_builder_takes_another_family_and_of_those_the_longest() -> None:
    long = Variant(precision="int8", quantization="qat", qengine="x86", fuse=True)
    requests = [request("a"), request("b"), request("x", INT8), request("q", long)]
    queue = BuildQueue(requests, seconds=lambda request: 60.0 if request.variant.quantization == "qat" else 1.0)
    first = queue.take()
    assert first is not None
    assert first.build_key == "q"
    second = queue.take(None, [first.family])
    assert second is not None
    assert second.build_key == "a", "two builds of one second"
    third = queue.take(first.family, [second.family])
    assert third is not None
    assert third.build_key == "x"
    last = queue.take(third.family, [second.family])
    assert last is not None
    assert last.build_key == "b", "it helps with the only family that is left"


def test_the_most_urgent_one_is_taken_although_its_family_is_another_one() -> None:
    urgent = {"x": 2.0}
    queue = BuildQueue(
        [request("a"), request("b"), request("x", INT8)], rank=lambda request: (urgent.get(request.build_key, 1.0),)
    )
    first = queue.take(request("a").family)
    assert first is not None
    assert first.build_key == "x"
    urgent["b"] = 3.0  # the urgency of a build may change
    assert keys(queue) == ["b", "a"]


def test_what_is_not_built_in_this_run_stays_and_is_counted() -> None:
    unwanted: set[str] = set()
    queue = BuildQueue([request("a"), request("b")], rank=lambda request: None if request.build_key in unwanted else ())
    assert queue
    assert not queue.left_out
    unwanted.add("b")
    assert queue.left_out == 1
    assert keys(queue) == ["a"]
    assert not queue
    assert queue.take() is None
