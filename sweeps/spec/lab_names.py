"""Names of devices in a lab: `host:NAME/adb:SERIAL`, `class:"Google Pixel 8"`, `tag:NAME`, and `adb:*` of all hosts."""

import re
from collections.abc import Collection

from sweeps.device_facts import DeviceFacts

HOST_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
TAG = HOST_NAME
_HOST = re.compile(rf"host:({HOST_NAME})/(.+)")
USAGES = ("host:NAME/adb:*", "host:NAME/adb:SERIAL", 'class:"MAKER MODEL"', "tag:NAME")
"""Forms in which sweep files name devices of a lab, for messages."""


def host_of(name: str) -> str | None:
    """Return the host in the name of a device; `None` if the name has no host."""
    match = _HOST.fullmatch(name)
    return match[1] if match else None


def on_host(name: str) -> str:
    """Return a device's name without its host, as it is on the host itself."""
    match = _HOST.fullmatch(name)
    return match[2] if match else name


def class_of(name: str) -> str | None:
    """Return the class of devices in the name (`class:...`); `None` if the name has no class."""
    kind, _, words = name.partition(":")
    return words.strip().strip("\"'").strip() if kind == "class" else None


def tag_of(name: str) -> str | None:
    """Return the tag in the name (`tag:...`); `None` if the name has no tag."""
    match = re.fullmatch(rf"tag:({TAG})", name)
    return match[1] if match else None


def only_in_a_lab(name: str) -> bool:
    """Tell whether the name is valid only in a lab."""
    return host_of(name) is not None or bool(class_of(name)) or tag_of(name) is not None


def matches(name: str, facts: DeviceFacts, tags: Collection[str]) -> bool:
    """Tell whether a sweep file's `name` selects this device of a lab. `tags`: the tags of the device's host."""
    host, unit = host_of(facts.name), on_host(facts.name)
    if (class_name := class_of(name)) is not None:
        return class_name.casefold() in (f"{facts.maker} {facts.model}".casefold(), facts.device_class.casefold())
    if (tag := tag_of(name)) is not None:
        return tag in tags
    if host_of(name) not in (None, host):
        return False
    own_name = on_host(name)
    return own_name == unit or (own_name.endswith(":*") and unit.startswith(own_name[:-1]))


def may_mean(name: str, facts: DeviceFacts) -> bool:
    """Tell whether `name` may select a device that is away (see `matches`). The tags of its host are not known then, so
    every tag may match."""
    if host_of(facts.name) is None:
        return False
    return tag_of(name) is not None or matches(name, facts, ())
