"""Converts the sweep file to tags of the sweep's own run, and back. Pure."""

from collections.abc import Mapping

from pydantic import ValidationError

from sweeps.errors import StoreError
from sweeps.spec.sweep import SweepSpec
from sweeps.store.run_content import MAX_TAG_LENGTH, RECORD, TAG

_SPEC = f"{TAG}spec"


def to_tags(spec: SweepSpec) -> dict[str, str]:
    """The JSON of the sweep file, cut into as many tags as needed."""
    text = spec.kept_json()
    parts = [text[start : start + MAX_TAG_LENGTH] for start in range(0, len(text), MAX_TAG_LENGTH)]
    return {f"{_SPEC}_parts": str(len(parts))} | {f"{_SPEC}.{number}": part for number, part in enumerate(parts)}


def has_spec(tags: Mapping[str, str]) -> bool:
    """Whether the sweep file is in the tags; the sweep's own run is made without it."""
    return f"{_SPEC}_parts" in tags


def text_in(tags: Mapping[str, str]) -> str:
    """The JSON of the sweep file, as the tags have it. Raises `ValueError` if they are damaged."""
    return "".join(tags.get(f"{_SPEC}.{number}", "") for number in range(min(len(tags), int(tags[f"{_SPEC}_parts"]))))


def from_tags(sweep: str, tags: Mapping[str, str]) -> SweepSpec:
    """Raises `StoreError` if this version cannot read the sweep file in the tags."""
    parts = [tags.get(f"{_SPEC}.{number}", "") for number in range(int(tags.get(f"{_SPEC}_parts", "0")))]
    try:
        return SweepSpec.model_validate_json("".join(parts))
    except ValidationError as error:
        raise StoreError(
            f"the sweep {sweep!r} in MLflow cannot be read by this EdgeSweep: {error.errors()[0]['msg']}",
            "run its sweep file again; its results are kept",
        ) from error


SWEEP, UPDATED, RUNS = f"{TAG}sweep", f"{TAG}updated", f"{TAG}runs"


IMPORTED = f"{TAG}imported"


IS_SWEEP, IS_JOB, IS_IMPORTED = (f"tags.`{RECORD}` = '{kind}'" for kind in ("sweep", "job", "imported"))
