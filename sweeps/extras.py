"""The extras of EdgeSweep: the extra that brings a missing package, and the line that installs it in this
environment."""

import json
import re
from importlib import metadata
from urllib.parse import unquote, urlsplit

from sweeps.errors import EdgeSweepError

_REQUIREMENT = re.compile(r"([\w.-]+).*extra == ['\"](\w+)['\"]")


def lacking(error: ModuleNotFoundError) -> EdgeSweepError:
    """Return the error for a person, with the extra that brings the package."""
    name = (error.name or "").partition(".")[0]
    return EdgeSweepError(f"{name} is not installed", install_line(extra_of(name)))


def extra_of(module: str) -> str:
    """Return the extra whose packages have `module`; `workers` where no package has its name."""
    package = module.lower().replace("_", "-")
    for requirement in metadata.requires("edgesweep") or ():
        match = _REQUIREMENT.match(requirement)
        if match and f"{match[1].lower()}-".startswith(f"{package}-"):
            return match[2]
    return "workers"


def install_line(*extras: str) -> str:
    """Return the line of pip that adds these extras to this environment: EdgeSweep is in no index, and came from a
    wheel or a folder."""
    added = ",".join(extras)
    return f"pip install {_source(f'[{added}]')}"


def _source(extras: str) -> str:
    """Return the source from which pip adds `[EXTRA,...]`, quoted for a shell."""
    text = metadata.distribution("edgesweep").read_text("direct_url.json")
    origin = json.loads(text) if text else {}
    url = str(origin.get("url", ""))
    match origin:
        case {"dir_info": {"editable": True}}:
            return f"--editable {_quoted(unquote(urlsplit(url).path) + extras)}"
        case {"dir_info": _}:
            return _quoted(unquote(urlsplit(url).path) + extras)
        case {"url": _}:
            return _quoted(f"edgesweep{extras} @ {url}")
    return _quoted(f"edgesweep{extras}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
