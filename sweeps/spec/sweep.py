"""The sweep file: what a person writes, validated before anything runs."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from sweeps.errors import SpecError
from sweeps.spec import catalog
from sweeps.spec.ending import OnEndSpec
from sweeps.spec.fields import DeviceName, Name, Part, check_unique, wrong
from sweeps.spec.grid import GridSpec
from sweeps.spec.messages import sentences
from sweeps.spec.model_inputs import (
    DataSpec,
    ModelSpec,
)
from sweeps.spec.objective import ObjectiveSpec
from sweeps.spec.protocol import MinutesBudget, ProtocolSpec
from sweeps.spec.recovery import RecoverySpec
from sweeps.spec.yaml_source import Document, read_yaml
from sweeps.spec.yaml_text import dumped


def _budget_of(protocol: ProtocolSpec | None) -> Literal["full", "race"] | None:
    """Return the budget that follows from the preset; `None` without a preset: then planning decides, by the number of
    variants."""
    if protocol is None or protocol.preset is None:
        return None
    return "race" if protocol.preset == "race" else "full"


class SweepSpec(Part):
    """One sweep file."""

    name: Name = Field(description="Name of the sweep in the store.")
    models: tuple[ModelSpec, ...] = Field(
        min_length=1, description="The networks to build variants of; each is ranked by itself."
    )
    data: DataSpec = DataSpec()
    grids: tuple[GridSpec, ...] = Field(
        min_length=1, description="The variants: of each grid all combinations of its axes, on every device."
    )
    devices: tuple[DeviceName, ...] = Field(
        default=("local",),
        min_length=1,
        json_schema_extra={"uniqueItems": True},
        description='What measures: local (this computer), "adb:*" (every phone), "ssh:USER@BOARD", ...',
    )
    share: Literal["class"] | None = Field(
        default=None,
        description="class: identical units share the work. Each variant is measured on one of them, and one variant "
        "on all, which shows whether they are alike. Not for races. If left out: each device measures everything.",
    )
    protocol: ProtocolSpec = ProtocolSpec()
    objective: ObjectiveSpec = ObjectiveSpec()
    budget: Literal["full", "race"] | MinutesBudget | None = Field(
        default_factory=lambda data: _budget_of(data.get("protocol")),
        description="full: measure everything to the end; race: only until it is clear what cannot win. If left out: "
        "that of the preset; without a preset, race for more than 8 variants of a model on a device, else full.",
    )
    recovery: RecoverySpec = RecoverySpec()
    on_end: OnEndSpec = OnEndSpec()

    def kept_json(self) -> str:
        """Return the sweep as JSON for the journal: without `on_end`, whose URL or arguments may be secrets, and which
        does not affect results."""
        return self.model_dump_json(exclude={"on_end"})

    @model_validator(mode="after")
    def _shared_work_has_rounds(self) -> Self:
        if self.share is not None and self.budget not in (None, "full"):
            raise wrong(
                "units cannot share a race, which compares all variants on one of them; give budget: full", "share"
            )
        return self

    @field_validator("models")
    @classmethod
    def _model_names_are_unique(cls, models: tuple[ModelSpec, ...]) -> tuple[ModelSpec, ...]:
        message = "a second model is called {}; give each its own name"
        check_unique([model.name for model in models], message, "name")
        return models

    @field_validator("grids")
    @classmethod
    def _grid_names_are_unique(cls, grids: tuple[GridSpec, ...]) -> tuple[GridSpec, ...]:
        check_unique([grid.name for grid in grids], "a second grid is called {}; give each its own name", "name")
        return grids

    @field_validator("devices")
    @classmethod
    def _devices_are_unique(cls, devices: tuple[str, ...]) -> tuple[str, ...]:
        check_unique(list(devices), "the device {} is in this list twice")
        return devices


def load(path: Path) -> SweepSpec:
    """Read and validate a sweep file. Relative paths in it, which start at the file's folder, become absolute.

    Raises `SpecError` with one line per problem: file, line, what is wrong, what is allowed.
    """
    return validated(read_yaml(path))


def validated(document: Document) -> SweepSpec:
    """Validate a parsed YAML document, as `load` does."""
    error = None
    try:
        # The values are passed as JSON, because pydantic's strict mode then accepts a list for a tuple and text for a
        # path.
        text = json.dumps(document.data)
        sweep = SweepSpec.model_validate_json(text, context={"folder": document.path.absolute().parent})
    except ValidationError as caught:
        error = caught
    problems = sentences(document, error, json_schema())
    if problems:
        remedy = "correct the sweep file; `edgesweep schema` prints everything that it may contain"
        lines = (f"{document.path}:{line}: {text}" for line, text in problems)
        raise SpecError("\n".join(lines), "; ".join((remedy, *catalog.problems())), problems)
    return sweep


def validated_values(
    content: dict[str, Any], folder: Path, next_step: str = "correct the values; `edgesweep schema` has all that may be"
) -> SweepSpec:
    """Validate values that do not come from a file (see `validated`). Relative paths start at `folder`. Raises
    `SpecError`."""
    error = None
    try:
        text = json.dumps(content, default=str)
        sweep = SweepSpec.model_validate_json(text, context={"folder": folder})
    except (TypeError, ValueError) as caught:
        error = caught
    if error is None:
        return sweep
    if not isinstance(error, ValidationError):
        raise SpecError(f"these values cannot be in a sweep file: {error}", next_step)
    problems = sentences(Document(Path("values"), json.loads(text)), error, json_schema())
    raise SpecError("\n".join(text.replace("the file: ", "the values: ", 1) for _, text in problems), next_step)


def sweep_yaml(sweep: SweepSpec) -> str:
    """Return the text of an equivalent sweep file, without `on_end` and defaults. Its paths are absolute."""
    document = sweep.model_dump(mode="json", exclude_defaults=True, exclude={"on_end"})
    return dumped(document)


@cache
def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a sweep file, for editors to check and complete it. The result is cached: never change
    it."""
    schema = SweepSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "EdgeSweep sweep file"}
