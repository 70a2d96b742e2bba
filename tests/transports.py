"""Another class under the name of a transport."""

from dataclasses import replace

import pytest

from sweeps.spec import catalog


def stand_in(patch: pytest.MonkeyPatch, kind: str, target: str) -> None:
    """Have devices of this kind made of `target`, `module:Class`."""
    patch.setitem(catalog.devices(), kind, replace(catalog.devices()[kind], target=target))
