"""Access by one-time links: a link's token becomes a browser's cookie, and requests from pages of other origins are
refused.

A link works once. It leaves a cookie in the browser, which scripts and other sites cannot send; the link itself, copied
or used again, gives no rights.
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
    """Unused links, and the browsers that used one. Only digests are kept, in memory, until the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: set[str] = set()
        self._browsers: set[str] = set()

    def new_link(self) -> str:
        """Return a new token, which lets one browser in."""
        token = secrets.token_urlsafe(32)
        self.add_link(token)
        return token

    def add_link(self, token: str) -> None:
        with self._lock:
            self._links.add(_digest(token))

    def enter(self, token: str) -> str | None:
        """Use up a token and return a new cookie for it; `None` if the token is unknown or used already."""
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
"""Gate that the routes and the pages of this server share."""


def cookie_name(port: int) -> str:
    """Return the cookie's name, which contains the port: browsers send a cookie to every port of a host, and two
    dashboards must not overwrite each other's cookies."""
    return f"edgesweep-rights-{port}"


def enter(port: int, gate: Gate = GATE) -> Callable[[Request], Awaitable[Response]]:
    """Return the route that exchanges the token in a URL for a cookie."""

    async def route(request: Request) -> Response:
        # A browser that prefetches the page must not use up the link.
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
    """Middleware that refuses requests under a host name that is not this server's (DNS rebinding), requests from pages
    of another origin (also of another port of this computer), and methods that send data: users' actions arrive over
    the pages' websocket. It also keeps this server's pages out of other sites' frames."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        """`app`: the application behind the middleware. `hosts`: the host names and addresses of this server, without
        ports."""
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
        # Programs other than browsers send no origin; nobody can make them send a cookie.
        return all(_address(origin) == hosts[0].lower() for origin in origins)


def _address(origin: str) -> str | None:
    """Return the host and port of an origin such as `http://127.0.0.1:8501`; `None` if it is no URL."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """Return a host such as `127.0.0.1:8501` without its port; `None` if the text is no host and port."""
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
