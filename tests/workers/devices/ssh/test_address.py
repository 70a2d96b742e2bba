"""Names of boards, and the commands that messages tell people to type."""

import pytest

from sweeps.errors import DeviceError
from sweeps.spec import catalog
from workers.devices.ssh.address import known_name, parse


@pytest.mark.parametrize(
    ("unit", "user", "host", "port", "target"),
    [
        ("pi@board", "pi", "board", None, "pi@board"),
        ("board", None, "board", None, "board"),
        ("pi@board.local:2222", "pi", "board.local", 2222, "-p 2222 pi@board.local"),
        ("10.0.0.7:22", None, "10.0.0.7", 22, "-p 22 10.0.0.7"),
        ("pi@[fe80::1%eth0]:2222", "pi", "fe80::1%eth0", 2222, "-p 2222 pi@fe80::1%eth0"),
        ("[::1]", None, "::1", None, "::1"),
        ("a_user.name@b-1", "a_user.name", "b-1", None, "a_user.name@b-1"),
    ],
)
def test_a_board_is_named_by_user_host_and_port(
    unit: str, user: str | None, host: str, port: int | None, target: str
) -> None:
    entry = catalog.device(f"ssh:{unit}")
    assert entry is not None
    assert entry.name == "ssh"
    address = parse(unit)
    assert (address.user, address.host, address.port, address.target, address.name) == (
        user,
        host,
        port,
        target,
        f"ssh:{unit}",
    )


@pytest.mark.parametrize(
    "unit",
    [
        "",
        "@board",
        "pi@",
        "-oProxyCommand=x",
        "pi@-x",
        "pi@board:",
        "pi@board:port",
        "pi@board:1234567",
        "pi@two words",
        "pi@board;id",
        "pi@$(id)",
        "::1",
        "pi@bo\nard",
        "pi@board\n",
    ],
)
def test_what_names_no_board_is_no_device(unit: str) -> None:
    assert catalog.device(f"ssh:{unit}") is None


@pytest.mark.parametrize("unit", ["pi@board:0", "pi@board:65536", "pi@board:99999"])
def test_a_port_that_there_cannot_be_is_refused(unit: str) -> None:
    with pytest.raises(DeviceError) as caught:
        parse(unit)
    assert caught.value.kind == "unknown_device"


def test_known_hosts_has_ports_in_brackets() -> None:
    assert known_name("board", 22) == "board"
    assert known_name("board", 2222) == "[board]:2222"
