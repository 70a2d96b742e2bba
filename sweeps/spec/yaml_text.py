"""The writer of sweep files as YAML text. Pure."""

import re
from typing import Any

import yaml


class Dumper(yaml.SafeDumper):
    """Dumper that also quotes text which YAML 1.2, as sweep files are read, would take for a number."""


Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)


def dumped(data: Any) -> str:
    """Return the text of a whole file, without comments."""
    style: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 100}
    return str(yaml.dump(data, Dumper=Dumper, **style))
