"""The manifest of an artifact: its identity, how it was built, and what was checked."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sweeps.errors import StoreError
from sweeps.untrusted_file import read_regular
from sweeps.variant import Variant

FILE_NAME = "manifest.json"
_MOST_BYTES = 64 * 2**20


class TensorSpec(BaseModel):
    """The shape and type of one input or output. `scale` and `zero_point` are set only for quantized types."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None


class Verification(BaseModel):
    """The check of an artifact's outputs, computed in a new process with the artifact's own engine, against the fp32
    eager model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    images: int
    engine: str
    sqnr_db: float | None
    """Signal to quantization-noise ratio of the outputs (dB); `None` if the outputs are bit-identical."""
    against: str = "fp32 eager"
    """The reference of the SQNR: `fp32 eager`, or `fp16-rounded eager` (Metal on settled random weights)."""
    executor: str = ""
    """The program that checked the artifact instead of the device: `reference:<backend>@<version>`;
    `exact int8 arithmetic` if int8 sums saturate on this machine but not on the device; for Vulkan
    `the exported graph`, and for a provider of ONNX Runtime its CPU provider. Empty: the CPU ran the artifact, as the
    device will."""
    top1_percent: float | None
    reference_top1_percent: float | None


class Coverage(BaseModel):
    """The share of a model that an accelerator computes, or a kernel library that runs whole parts of the model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operations: dict[str, int]
    """How often the model uses each operation of the accelerator's interface, by the operation's name."""
    multiply_adds: int
    """The number of multiply-adds of the whole model, for its batch size."""
    multiply_adds_covered_percent: float
    left: dict[str, int] = {}
    """How often the model uses each operator that the accelerator does not run, if known."""
    left_percent: dict[str, float] = {}
    """The share of the model's multiply-adds, for each operator of `left` that has any."""
    delegates: int | None = None
    """The number of parts of the model that the accelerator runs, if known: between these parts, data go through the
    CPU."""
    feature_level: int | None = None
    """The lowest NNAPI feature level that supports all of the operations."""

    @property
    def text(self) -> str:
        """The coverage as JSON. The fields of kernel libraries are left out if they are not set, so that the JSON of
        earlier versions stays the same."""
        return self.model_dump_json(exclude={"left", "left_percent", "delegates"} if self.delegates is None else None)

    @property
    def operators(self) -> int:
        """The number of operators of the whole model, if the number of operators in `left` is known."""
        return sum(self.operations.values()) + sum(self.left.values())


class EvalSibling(BaseModel):
    """A second file of the same model that is only evaluated, neither timed nor shipped. For stock tools it has inputs
    bundled into it; of a build for Vulkan, which no library runs on this host, it is the model before lowering."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    file_sha256: str
    images: int
    """The number of bundled images: the first ones of the verification images; 0 for Vulkan."""


class Manifest(BaseModel):
    """The content of `artifacts/<build_key>/manifest.json`. The file's hash is recorded and checked, but is never a
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
    """An id that is equal for builds of one program: the same operators on tensors of the same shapes. `None`: not
    known, or built before the id was recorded."""
    file_version: int
    bytecode_version: int | None
    calibration_id: str | None
    versions: dict[str, str]
    verification: Verification
    coverage: Coverage | None = None
    """`None` unless an accelerator or library runs parts of the model: NNAPI, or a delegate of ExecuTorch."""
    providers: dict[str, int] = {}
    """The number of graph nodes of each execution provider of ONNX Runtime, as loaded on the machine that built the
    file. Providers that only devices have are not included."""
    eval: EvalSibling | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of the artifact that are known without a run, by name."""
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
