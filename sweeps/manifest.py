"""The manifest of an artifact: its identity, how it was built, and what was checked."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sweeps.errors import StoreError
from sweeps.untrusted_file import read_regular
from sweeps.variant import Variant

FILE_NAME = "manifest.json"
_MOST_BYTES = 64 * 2**20


class TensorSpec(BaseModel):
    """The shape and type of one input or output. `scale` and `zero_point` only for quantized types."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


class Verification(BaseModel):
    """The check of the outputs of a new process with the artifact's own engine, compared with the fp32 eager model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int
    engine: str
    sqnr_db: float | None
    """The SQNR is `None` if the outputs are bit-identical."""
    against: str = "fp32 eager"
    """The reference of the SQNR: `fp32 eager`, or `fp16-rounded eager` (Metal on settled random weights)."""
    executor: str = ""
    """The executor that checked the artifact in place of the device is `reference:<backend>@<version>`; `exact int8
    arithmetic` if int8 sums saturate on this machine but not on the device; for Vulkan `the exported graph`, and for a
    provider of ONNX Runtime its CPU provider. Empty: the CPU ran the artifact, as it will."""
    top1_percent: float | None
    reference_top1_percent: float | None


class Coverage(BaseModel):
    """The share of a model that an accelerator computes, or a library of kernels that takes whole parts of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operations: dict[str, int]
    """The number of uses in the model of each operation of the accelerator's interface, by name."""
    multiply_adds: int
    """The number of multiply-adds of the whole model, for its batch."""
    multiply_adds_covered_percent: float
    left: dict[str, int] = {}
    """The number of uses of each operator that the accelerator does not take, where that is known."""
    left_percent: dict[str, float] = {}
    """The share of the model's multiply-adds, for each operator that is left and multiplies."""
    delegates: int | None = None
    """The number of parts of the model that the accelerator has, where that is known: between them, data go through the
    CPU."""
    feature_level: int | None = None
    """The lowest NNAPI feature level that has all of the operations."""

    @property
    def text(self) -> str:
        """Return the coverage as JSON, without the fields of a library of kernels where these are empty: so it is as it
        always was."""
        return self.model_dump_json(exclude={"left", "left_percent", "delegates"} if self.delegates is None else None)

    @property
    def operators(self) -> int:
        """The number of operators of the whole model, where what is left is known."""
        return sum(self.operations.values()) + sum(self.left.values())


class EvalSibling(BaseModel):
    """The sibling is the same model in a file that is only evaluated, neither timed nor shipped: with inputs bundled
    into it, for stock tools; of a build for Vulkan, which no library runs on this host, as it was before it was
    lowered."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    file_sha256: str
    images: int
    """The number of bundled images: the first ones of the verification images; 0 for Vulkan."""


class Manifest(BaseModel):
    """The content of `artifacts/<build_key>/manifest.json`. The file's hash is recorded and checked, never used as a
    key."""

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
    """The memory format of the runner's input: `contiguous_format` or `channels_last`."""
    input: TensorSpec
    output: TensorSpec
    fused: tuple[str, ...]
    """The module sequences that were fused, e.g. `features.0.0 + features.0.1`."""
    operators: tuple[str, ...]
    program_id: str | None = None
    """The id is equal for builds that are one program: the same operators on tensors of the same shapes. `None`: not
    known, or built before it was recorded."""
    file_version: int
    bytecode_version: int | None
    calibration_id: str | None
    versions: dict[str, str]
    verification: Verification
    coverage: Coverage | None = None
    """The coverage is `None` unless something takes parts of the model: NNAPI, or a delegate of ExecuTorch."""
    providers: dict[str, int] = {}
    """The number of nodes of each execution provider of ONNX Runtime, as the machine that built the file loads it. The
    providers that only devices have are not in it."""
    eval: EvalSibling | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of the artifact that need no run."""
        figures = {"artifact_mb": self.file_bytes / 1e6}
        covered = self.coverage
        # A model without multiply-adds has no share of them.
        if covered is not None and covered.delegates is not None and covered.multiply_adds:
            figures["delegated_percent"] = covered.multiply_adds_covered_percent
        if covered is not None and covered.delegates is not None and covered.operators:
            figures["delegated_operators_percent"] = 100.0 * sum(covered.operations.values()) / covered.operators
        return figures

    @property
    def axes(self) -> Variant:
        return Variant(**self.variant)  # type: ignore[arg-type]  # checked by the dataclass' field names

    def write(self, folder: Path) -> None:
        (folder / FILE_NAME).write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest. Raises `StoreError` if the manifest is missing or damaged."""
        path = folder / FILE_NAME
        try:
            return cls.model_validate_json(read_regular(path, _MOST_BYTES))
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read: {error}", "run the sweep again: it rebuilds what is missing"
            ) from error
