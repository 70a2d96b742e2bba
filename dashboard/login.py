"""A gate knows who came in by a link of this server: one-time tokens become cookies, and pages of other origins get
nothing.

A link is worth one entry. What it leaves in the browser is a cookie that scripts and other sites cannot send; the link
itself, copied or used again, carries no rights.
"""

import hashlib
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTER = "/enter"

_USED = (
    "This link was used before, or is none of this server. A link works once.\n"
    "The page itself can be read without one: take /enter and all behind it out of the address.\n"
    "For a new link: start `edgesweep dashboard` again, or ask for one on the page Launch.\n"
)
_READING = ("GET", "HEAD", "OPTIONS")
_TAKES_NOTHING = "This dashboard takes no files.\n"
_FOREIGN = "Only pages of this server may do that.\n"


class Gate:
    """The open links and the browsers that used one. Keeps digests only, and forgets all when the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: set[str] = set()
        self._browsers: set[str] = set()

    def new_link(self) -> str:
        """A token for one entry."""
        token = secrets.token_urlsafe(32)
        self.add_link(token)
        return token

    def add_link(self, token: str) -> None:
        with self._lock:
            self._links.add(_digest(token))

    def enter(self, token: str) -> str | None:
        """The cookie that a browser keeps for this token; `None` if the token is not open (any more)."""
        with self._lock:
            if _digest(token) not in self._links:
                return None
            self._links.remove(_digest(token))
            cookie = secrets.token_urlsafe(32)
            self._browsers.add(_digest(cookie))
            return cookie

    def knows(self, cookie: str) -> bool:
        with self._lock:
            return _digest(cookie) in self._browsers


GATE = Gate()
"""The routes and the pages of this server share this gate."""


def cookie_name(port: int) -> str:
    """Browsers send a cookie to every port of a host: two dashboards must not overwrite each other's."""
    return f"edgesweep-rights-{port}"


def enter(port: int, gate: Gate = GATE) -> Callable[[Request], Awaitable[Response]]:
    """The route that takes a token from the address and gives a cookie for it."""

    async def route(request: Request) -> Response:
        # A browser that loads a page before it is asked for must not use up the link.
        ahead = request.method != "GET" or "prefetch" in request.headers.get("sec-purpose", "")
        cookie = None if ahead else gate.enter(request.query_params.get("token", ""))
        if cookie is None:
            return PlainTextResponse(_USED, status_code=403, headers={"Cache-Control": "no-store"})
        response = RedirectResponse("/", status_code=303, headers={"Cache-Control": "no-store"})
        secure = request.url.scheme == "https"
        response.set_cookie(cookie_name(port), cookie, httponly=True, samesite="strict", secure=secure, path="/")
        return response

    return route


class OwnPagesOnly:
    """Middleware: refuses requests under a name that is not this server's (DNS rebinding), those of pages of any other
    origin, also of another port of this computer, and those that bring something: pages are read here, and what a
    person does in them comes over their websocket. Keeps its pages out of others' frames."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        """`hosts`: the names and addresses of this server, without ports."""
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if not self._is_own(Headers(scope=scope)):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008, "reason": _FOREIGN.strip()})
            else:
                await PlainTextResponse(_FOREIGN, status_code=403)(scope, receive, send)
            return

        if scope["type"] == "http" and scope["method"] not in _READING:
            await PlainTextResponse(_TAKES_NOTHING, status_code=405, headers={"Allow": ", ".join(_READING)})(
                scope, receive, send
            )
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Frame-Options"] = "SAMEORIGIN"
                headers["Content-Security-Policy"] = "frame-ancestors 'self'"
                headers["Referrer-Policy"] = "no-referrer"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        await self._app(scope, receive, with_headers)

    def _is_own(self, headers: Headers) -> bool:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            return False
        # Programs that are no browsers send none, and have no cookie that they could be made to send.
        return all(_address(origin) == hosts[0].lower() for origin in origins)


def _address(origin: str) -> str | None:
    """Host and port of `http://127.0.0.1:8501`; `None` if it is no address at all."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """`127.0.0.1:8501` without its port; `None` if it is no host and port."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        return None
    return (parts.hostname or "").rstrip(".")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
