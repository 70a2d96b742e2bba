"""A real server lets people in by links and cookies, with their rights, and no page of another origin."""

import http.client
from collections.abc import Iterator, Mapping
from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from dashboard.login import Gate
from dashboard.roles import Role, read_roles
from dashboard.web_server import serving
from sweeps.errors import SpecError
from tests.free_port import free_port

TOKEN = "the link of this test"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with serving(tmp_path_factory.mktemp("workspace"), token=TOKEN, port=free_port()) as port:
        yield port


def ask(port: int, path: str, headers: Mapping[str, str], method: str = "GET") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers=dict(headers))
        return connection.getresponse()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 101),
        ("localhost:{port}", "http://localhost:{port}", 101),
        ("127.0.0.1:{port}", "http://127.0.0.1:1", 403),  # another port of this computer
        ("127.0.0.1:{port}", "http://localhost:{port}", 403),
        ("127.0.0.1:{port}", "https://evil.example", 403),
        ("127.0.0.1:{port}", "null", 403),
        ("127.0.0.1:{port}", "http://[", 403),
        ("evil.example:{port}", "http://evil.example:{port}", 403),  # a name that was pointed here
        ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example", 403),
        ("user@127.0.0.1:{port}", "http://user@127.0.0.1:{port}", 403),
    ],
)
def test_only_a_page_of_this_server_opens_a_websocket(port: int, host: str, origin: str, status: int) -> None:
    headers = {"Host": host.format(port=port), "Origin": origin.format(port=port), **UPGRADE}
    assert ask(port, "/_stcore/stream", headers).status == status


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "ANYTHING"])
@pytest.mark.parametrize("path", ["/_stcore/upload_file/session/file", "/_stcore/agent/interact", "/"])
def test_nobody_brings_anything_to_the_server(port: int, path: str, method: str) -> None:
    assert ask(port, path, {}, method).status == 405


@pytest.mark.parametrize("path", ["/", "/_stcore/health", "/enter?token=x"])
def test_nothing_is_served_under_a_foreign_name_or_to_a_foreign_page(port: int, path: str) -> None:
    assert ask(port, path, {"Host": f"evil.example:{port}"}).status == 403
    assert ask(port, path, {"Origin": "http://127.0.0.1:1"}).status == 403
    assert "Access-Control-Allow-Origin" not in ask(port, path, {"Origin": "http://localhost:1"}).headers


def test_a_link_works_once_and_leaves_a_cookie_that_others_cannot_send(port: int) -> None:
    assert ask(port, "/enter?token=another", {}).status == 403
    link = "/enter?token=the%20link%20of%20this%20test"
    # A link is used up neither by a look ahead of the browser nor by a foreign page.
    assert ask(port, link, {}, "HEAD").status == 403
    assert ask(port, link, {"Sec-Purpose": "prefetch;prerender"}).status == 403
    assert ask(port, link, {"Origin": "https://evil.example"}).status == 403
    entered = ask(port, link, {})
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    assert entered.headers["Referrer-Policy"] == "no-referrer"
    [(name, cookie)] = SimpleCookie(entered.headers["Set-Cookie"]).items()
    assert name == f"edgesweep-rights-{port}"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert TOKEN not in cookie.value
    second = ask(port, link, {})
    assert second.status == 403
    assert "Set-Cookie" not in second.headers


def test_a_gate_knows_only_what_it_gave() -> None:
    gate = Gate()
    link = gate.new_link()
    assert not gate.knows(link)
    cookie = gate.enter(link)
    assert cookie is not None
    assert gate.knows(cookie)
    assert gate.enter(link) is None
    assert not gate.knows("")
    assert not Gate().knows(cookie)


def test_roles_are_read_by_address_and_each_error_has_its_line(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text("Ann@Example.org: operate\nbob@example.org: launch\n")
    assert read_roles(file) == {"ann@example.org": Role.OPERATE, "bob@example.org": Role.LAUNCH}
    file.write_text("ann@example.org: root\nbob: look\n")
    with pytest.raises(SpecError) as caught:
        read_roles(file)
    first, second = caught.value.message.splitlines()
    assert first == f"{file}:1: 'root' is not a role (allowed: look, launch, operate)"
    assert second == f"{file}:2: 'bob' is not an address"
    file.write_text("- ann@example.org\n")
    with pytest.raises(SpecError, match="an address and a role on each line"):
        read_roles(file)
    with pytest.raises(SpecError, match="cannot be read"):
        read_roles(tmp_path / "missing.yaml")
