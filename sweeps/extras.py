"""The extras of EdgeSweep: which extra installs a missing package, and the pip command for this environment."""

import json
import re
from importlib import metadata
from urllib.parse import unquote, urlsplit

from sweeps.errors import EdgeSweepError

_REQUIREMENT = re.compile(r"([\w.-]+).*extra == ['\"](\w+)['\"]")


def lacking(error: ModuleNotFoundError) -> EdgeSweepError:
    """Return the error for people that a package is missing, with the extra that installs it."""
    name = (error.name or "").partition(".")[0]
    return EdgeSweepError(f"{name} is not installed", install_line(extra_of(name)))


def extra_of(module: str) -> str:
    """Return the extra that installs the package of `module`; `workers` if no known package has its name."""
    package = module.lower().replace("_", "-")
    for requirement in metadata.requires("edgesweep") or ():
        match = _REQUIREMENT.match(requirement)
        if match and f"{match[1].lower()}-".startswith(f"{package}-"):
            return match[2]
    return "workers"


def install_line(*extras: str) -> str:
    """Return the pip command that adds these extras to this environment. EdgeSweep is in no package index: it was
    installed from a wheel or a folder."""
    added = ",".join(extras)
    return f"pip install {_source(f'[{added}]')}"


def _source(extras: str) -> str:
    """Return the source of the installed EdgeSweep with `extras` appended, quoted for a shell."""
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
