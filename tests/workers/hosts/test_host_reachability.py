"""The way to a host: when a call is worth a try."""

import socket

from workers.hosts.host_reachability import FORGOTTEN_S, Address, Link, reachable
from workers.hosts.interface import SILENT_S

ADDRESS = ("10.0.0.7", 24000)


class Network:
    """With a clock, and with or without a way to the host."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.is_cut = False
        self.tries: list[Address] = []

    def reach(self, address: Address) -> bool:
        self.tries.append(address)
        return not self.is_cut

    def link(self, address: Address | None = ADDRESS) -> Link:
        return Link(address, lambda: self.now_s, self.reach)


def test_a_link_that_works_is_not_tried() -> None:
    network = Network()
    assert network.link().is_open()
    assert network.tries == []


def test_nothing_is_called_over_a_lost_link_until_the_host_can_be_reached() -> None:
    network = Network()
    link = network.link()
    network.is_cut = True
    link.lost()
    network.now_s += FORGOTTEN_S
    assert not link.is_open()
    network.is_cut = False
    assert link.is_open()
    assert network.tries == [ADDRESS, ADDRESS]
    network.is_cut = True
    assert not link.is_open(), "what can be reached has not answered yet"
    link.heard()
    assert link.is_open()
    assert len(network.tries) == 3


def test_a_call_in_vain_has_none_after_it_until_its_attempt_to_connect_is_forgotten() -> None:
    network = Network()
    link = network.link()
    for _ in range(2):
        link.lost()
        network.now_s += FORGOTTEN_S / 2
        assert not link.is_open()
    assert network.tries == []
    network.now_s += FORGOTTEN_S
    assert link.is_open()


def test_a_silent_host_is_called_only_if_it_can_be_reached_and_may_be_busy_before() -> None:
    network = Network()
    link = network.link()
    network.is_cut = True
    network.now_s += SILENT_S / 2
    assert link.silent_in_s() == SILENT_S / 2
    assert link.is_open()
    assert network.tries == []
    network.now_s += SILENT_S / 2
    assert link.silent_in_s() <= 0
    assert not link.is_open()
    network.is_cut = False
    assert link.is_open(), "it is busy"
    link.heard()
    assert link.is_open()
    assert len(network.tries) == 2


def test_a_host_whose_address_is_not_known_is_called_all_the_same() -> None:
    link = Network().link(None)
    link.lost()
    assert link.is_open()


def test_what_accepts_connections_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address: Address = server.getsockname()
        assert reachable(address)
    with socket.socket() as bound:  # the socket does not listen, and nobody else can have its port
        bound.bind(("127.0.0.1", 0))
        address = bound.getsockname()
        assert not reachable(address)
