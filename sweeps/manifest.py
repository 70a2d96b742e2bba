"""The manifest beside every artifact: what it is, how it was made, what was checked."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sweeps.errors import StoreError
from sweeps.variant import Variant

FILE_NAME = "manifest.json"


class TensorSpec(BaseModel):
    """Shape and type of one input or output. `scale` and `zero_point` only where the type is quantized."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


class Verification(BaseModel):
    """What a fresh process under the artifact's own engine answered, against the fp32 eager model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int
    engine: str
    sqnr_db: float | None
    """`None` where the outputs are equal to the bit."""
    against: str = "fp32 eager"
    """Whose answers the SQNR is against: `fp32 eager`, or `fp16-rounded eager` (Metal on settled random weights)."""
    executor: str = ""
    """What checked it in place of the device: `reference:<backend>@<version>`, or `exact int8 arithmetic` where this
    machine's sums saturate and the device's do not; empty: the CPU ran it."""
    top1_percent: float | None
    reference_top1_percent: float | None


class Coverage(BaseModel):
    """How much of a model an accelerator takes over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operations: dict[str, int]
    """Operations of the accelerator's interface by name, with how often each stands in the model."""
    multiply_adds: int
    """Of the whole model, for its batch."""
    multiply_adds_covered_percent: float
    feature_level: int | None = None
    """The least NNAPI feature level that has all of the operations."""


class EvalSibling(BaseModel):
    """The same model with inputs bundled into its file, for stock tools. Never timed, never shipped."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    file_sha256: str
    images: int
    """The first so many of the verification images."""


class Manifest(BaseModel):
    """`artifacts/<build_key>/manifest.json`. The file's hash is recorded and checked, never used as a key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = 1
    build_key: str
    model: str
    model_source: str
    weights_id: str
    runtime: str
    backend: str
    variant: dict[str, str | bool | int]
    file: str
    file_bytes: int
    file_sha256: str
    memory_format: str
    """What the runner's input has: `contiguous_format` or `channels_last`."""
    input: TensorSpec
    output: TensorSpec
    fused: tuple[str, ...]
    """Module sequences that were fused, e.g. `features.0.0 + features.0.1`."""
    operators: tuple[str, ...]
    file_version: int
    bytecode_version: int | None
    calibration_id: str | None
    versions: dict[str, str]
    verification: Verification
    coverage: Coverage | None = None
    """Of an NNAPI model."""
    eval: EvalSibling | None = None

    @property
    def axes(self) -> Variant:
        return Variant(**self.variant)  # type: ignore[arg-type]  # checked by the dataclass' field names

    def write(self, folder: Path) -> None:
        (folder / FILE_NAME).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises `StoreError` where the manifest is missing or damaged."""
        path = folder / FILE_NAME
        try:
            return cls.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}", "run the sweep again: what is missing is built anew"
            ) from error
