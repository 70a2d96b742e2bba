"""A sweep file is written as text. Pure."""

import re
from typing import Any

import yaml


class Dumper(yaml.SafeDumper):
    """Quotes text that a sweep file's YAML 1.2 would read as a number, too."""


Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)


def dumped(data: Any) -> str:
    """A whole file, without comments."""
    style: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 100}
    return str(yaml.dump(data, Dumper=Dumper, **style))
