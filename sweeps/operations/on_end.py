"""Messages to other programs that a sweep has ended, sent as `on_end` of the sweep file says. A message that fails is
reported on stderr, and does not affect the sweep."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from importlib.metadata import version
from typing import Any, Literal

from sweeps.errors import EdgeSweepError, WorkspaceError, in_one_line
from sweeps.operations.notices import notify
from sweeps.spec.ending import OnEndSpec
from sweeps.spec.sweep import SweepSpec
from sweeps.store.uri import redact
from sweeps.store.verdicts import overview
from sweeps.workspace import Workspace

COMMAND_S, WEBHOOK_S = 60.0, 10.0
"""Time limits of the command and of the webhook, in seconds."""

State = Literal["finished", "stopped", "failed"]
_PLACE = ("device", "device_id", "model", "state", "winner", "latency_p50_ms", "provisional", "settle", "reason")


@dataclass(slots=True)
class End:
    """Report of a run about its end. `stopped`: it ended by request before its work was done."""

    stopped: bool = False


@contextmanager
def told_at_the_end(spec: SweepSpec, workspace: Workspace) -> Iterator[End]:
    """Send the sweep file's message (`on_end`) when the `with` block around a run ends. State `failed`: an error ended
    the run; `stopped`: a request ended it, and the next run continues; otherwise `finished`."""
    state: State | None = "failed"
    end = End()
    try:
        yield end
        state = "stopped" if end.stopped else "finished"
    except KeyboardInterrupt:
        state = "stopped"
        raise
    except WorkspaceError:  # another run uses the workspace: only its end sends a message
        state = None
        raise
    finally:
        if spec.on_end and state is not None:
            _tell(spec.on_end, document(workspace, spec.name, state))


def document(workspace: Workspace, sweep: str, state: State) -> dict[str, Any]:
    """Return the message as a JSON document: the state, and the winner for each device and model (`places`), with the
    fields of `summary` in `edgesweep rank --json`."""
    try:
        verdicts = [verdict._asdict() for verdict in overview(workspace, sweep)]
    except EdgeSweepError:  # nothing was planned
        verdicts = []
    except Exception as error:  # noqa: BLE001  # a disk or a database: the end of the run is what counts
        notify(f"on_end: the results cannot be read, and are left out: {in_one_line(error)}")
        verdicts = []
    places = [{name: verdict[name] for name in _PLACE} for verdict in verdicts]
    message = {"sweep": sweep, "state": state, "workspace": str(workspace.root), "places": places}
    return {**message, "edgesweep": version("edgesweep")}


def _tell(on_end: OnEndSpec, message: dict[str, Any]) -> None:
    content = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
    if on_end.command:
        try:
            # The command's output goes to stderr, because stdout may carry the document of `--json`.
            ended = subprocess.run(on_end.command, input=content, timeout=COMMAND_S, check=False, stdout=2)  # noqa: S603
            if ended.returncode:
                _failed("command", f"exit code {ended.returncode}")
        except (OSError, ValueError) as error:
            _failed("command", getattr(error, "strerror", None) or str(error))
        except subprocess.TimeoutExpired:
            _failed("command", f"it took longer than {COMMAND_S:.0f} s")
    if on_end.webhook is not None:
        try:
            _post(on_end.webhook, content)
        except (OSError, HTTPException, ValueError) as error:
            _failed("webhook", redact(str(error), on_end.webhook))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow no redirect: only the URL in the sweep file may get the message."""


def _post(address: str, content: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "edgesweep"}
    request = urllib.request.Request(address, data=content, headers=headers, method="POST")  # noqa: S310  # http(s)
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=WEBHOOK_S) as answer:
        answer.read(1)


def _failed(channel: str, why: str) -> None:
    notify(f"on_end: the {channel} failed: {why}. The results are kept.")
