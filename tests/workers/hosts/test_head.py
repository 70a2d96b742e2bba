"""The many lanes of one driver share what they hear of a head that does not answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweeps.errors import DeviceError
from workers.hosts.head import Head, NamedHost

LANES = 12


def test_those_who_wait_for_a_silent_head_share_the_failure_and_the_next_asks_anew() -> None:
    now_s, questions, away = 0.0, 0, True
    waiting: set[int] = set()
    changed = threading.Condition()

    def clock() -> float:
        with changed:
            waiting.add(threading.get_ident())
            changed.notify_all()
        return now_s

    def find() -> list[NamedHost]:
        nonlocal now_s, questions
        questions += 1
        if away:
            with changed:
                assert changed.wait_for(lambda: len(waiting) == LANES, 60)
            now_s += 5.0
            raise DeviceError("head_away", "it does not answer", "start it again")
        return []

    head = Head(find, clock)
    together = threading.Barrier(LANES)

    def ask() -> str:
        together.wait(60)
        with pytest.raises(DeviceError) as caught:
            head.ask(clock())
        return f"{caught.value.kind}: {caught.value.one_line}"

    with ThreadPoolExecutor(LANES) as pool:
        errors = [future.result(60) for future in [pool.submit(ask) for _ in range(LANES)]]
    assert set(errors) == {"head_away: it does not answer (start it again)"}
    assert (questions, now_s) == (1, 5.0)
    away = False
    assert head.ask(clock()) == []
    assert questions == 2
