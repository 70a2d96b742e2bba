"""The extras of EdgeSweep: which one brings a missing package, and the line that installs it here."""

import json
import re
from importlib import metadata
from urllib.parse import unquote, urlsplit

from sweeps.errors import EdgeSweepError

_REQUIREMENT = re.compile(r"([\w.-]+).*extra == ['\"](\w+)['\"]")


def lacking(error: ModuleNotFoundError) -> EdgeSweepError:
    """The error for a person, with the extra that brings the package."""
    name = (error.name or "").partition(".")[0]
    return EdgeSweepError(f"{name} is not installed", install_line(extra_of(name)))


def extra_of(module: str) -> str:
    """The extra whose packages have `module`; `workers` where no package has its name."""
    wanted = module.lower().replace("_", "-")
    for requirement in metadata.requires("edgesweep") or ():
        found = _REQUIREMENT.match(requirement)
        if found and f"{found[1].lower()}-".startswith(f"{wanted}-"):
            return found[2]
    return "workers"


def install_line(*extras: str) -> str:
    """The line of pip that adds these extras here: EdgeSweep is in no index, and came from a wheel or a folder."""
    added = ",".join(extras)
    return f"pip install {_source(f'[{added}]')}"


def _source(extras: str) -> str:
    """What pip takes to add `[EXTRA,...]`, quoted for a shell."""
    text = metadata.distribution("edgesweep").read_text("direct_url.json")
    found = json.loads(text) if text else {}
    url = str(found.get("url", ""))
    match found:
        case {"dir_info": {"editable": True}}:
            return f"--editable {_quoted(unquote(urlsplit(url).path) + extras)}"
        case {"dir_info": _}:
            return _quoted(unquote(urlsplit(url).path) + extras)
        case {"url": _}:
            return _quoted(f"edgesweep{extras} @ {url}")
    return _quoted(f"edgesweep{extras}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
