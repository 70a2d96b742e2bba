"""The types of fields in sweep files: names, paths, CPUs, metrics, devices."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, ValidationInfo
from pydantic.config import JsonDict
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sweeps.errors import did_you_mean
from sweeps.metrics import METRICS
from sweeps.spec import catalog, lab_names, toolchains
from sweeps.spec.messages import SENTENCE
from sweeps.variant import INSTALLED


def wrong(message: str, *at: str | int) -> PydanticCustomError:
    """Return a pydantic error of the field that is being validated, or of the location `at` below it."""
    return PydanticCustomError(SENTENCE, "{message}", {"message": message, "at": at})


_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"


def _check_name(name: str) -> str:
    # Job names join these names by separators and must stay unique. MLflow uses the names too.
    if not re.fullmatch(_NAME, name):
        raise wrong(f"the name {name[:80]!r} must be letters, digits, '.', '_' and '-' only, 64 at most")
    return name


def module_source(source: str) -> str:
    """Convert a source that names a file into `module:function`: `nets.py:make` becomes `nets:make`, and
    `small/nets:make` or `./small/nets.py:make` becomes `small.nets:make`."""
    path, colon, function = source.rpartition(":")
    if not colon:
        return source
    module = path.removeprefix("./").removesuffix(".py").removesuffix("/__init__")
    return f"{module.replace('/', '.')}:{function}"


def _check_source(source: str) -> str:
    written, source = source, module_source(source)
    module, colon, function = source.partition(":")
    if not all(part.isidentifier() for part in module.split(".")) or (colon and not function.isidentifier()):
        by_path = "; of a file, start in its folder and write nets:make" if "/" in written else ""
        raise wrong(
            f"{written[:80]!r} is neither torchvision's name of a model (mobilenet_v2) nor module:function{by_path}"
        )
    if not colon and "." in module:
        raise wrong(f"{source[:80]!r} names no function; write module:function")
    return source


def _check_cpus(cpus: str) -> str:
    """Return `all`, `big` or `little` as it is, or a list with every CPU by number: `0-2,5` becomes `0,1,2,5`."""
    if cpus in ("all", "big", "little"):
        return cpus
    numbers: list[int] = []
    for part in cpus.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        if not match:
            raise wrong(f"{cpus[:80]!r} is no list of CPUs; write all, big, little, or for instance 0,1 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise wrong(f"the range {part.strip()} ends before it starts")
        numbers += range(first, last + 1)
    if len(set(numbers)) < len(numbers):
        raise wrong(f"{cpus[:80]!r} names a CPU twice")
    return ",".join(map(str, sorted(numbers)))


def _check_release(text: str) -> str:
    if text != INSTALLED:
        try:
            toolchains.toolchain(text)
        except ValueError as error:
            raise wrong(str(error)) from error
    return text


def _check_runner_release(text: str) -> str:
    return text if text == toolchains.SAME else _check_release(text)


def _releases(*words: str) -> Any:
    return Field(json_schema_extra={"pattern": f"^({'|'.join((*words, toolchains.PATTERN))})$"})


def _check_metric(metric: str) -> str:
    if metric not in METRICS and metric not in (known := catalog.metrics()):
        raise wrong(f"there is no metric {metric!r} (allowed: {', '.join(known)}){did_you_mean(metric, known)}")
    return metric


def _metric_names(schema: JsonDict) -> None:
    schema["enum"] = list(catalog.metrics())


@dataclass(frozen=True, slots=True)
class ValueOf:
    """Type of a text axis's values for pydantic: like a `Literal` of the values in the catalog."""

    axis: str

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.literal_schema(list(catalog.values(self.axis)))


def _check_device(device: str) -> str:
    if catalog.device(device) is not None or lab_names.class_of(device) or lab_names.tag_of(device):
        return device
    # The simulated devices come last: a user rarely means them.
    known = sorted(catalog.devices().values(), key=lambda entry: entry.simulated)
    allowed = ", ".join([*(usage for entry in known for usage in entry.usages), *lab_names.USAGES])
    single = [entry.name for entry in known if not entry.unit]
    raise wrong(f"there is no device {device!r} (allowed: {allowed}){did_you_mean(device, single)}")


def _device_pattern(schema: JsonDict) -> None:
    units = "|".join(entry.pattern for entry in catalog.devices().values())
    schema["pattern"] = f"^((host:{lab_names.HOST_NAME}/)?({units})|class:.*\\S.*|tag:{lab_names.TAG})$"


def check_path_text(path: object) -> object:
    if isinstance(path, str) and (not path.strip() or re.search(r"[\0\r\n]", path)):
        raise wrong("a path must be one line of text and not empty")
    return path


def from_file(path: Path, info: ValidationInfo) -> Path:
    """Make a path relative to the sweep file absolute. When the sweep is read from the journal instead of a file, the
    path is not changed."""
    folder = (info.context or {}).get("folder")
    if folder is None:
        return path
    try:
        return Path(folder / path.expanduser()).resolve()
    except (OSError, RuntimeError) as error:
        raise wrong(f"the path {path} cannot be resolved: {error}") from error


def exists(kind: Literal["file", "folder"], path: Path) -> bool:
    try:
        return path.is_file() if kind == "file" else path.is_dir()
    except OSError:  # a name too long, or a folder without permission
        return False


Name = Annotated[str, AfterValidator(_check_name), Field(json_schema_extra={"pattern": f"^{_NAME}$"})]
MetricName = Annotated[str, AfterValidator(_check_metric), Field(json_schema_extra=_metric_names)]
DeviceName = Annotated[str, AfterValidator(_check_device), Field(json_schema_extra=_device_pattern)]
Source = Annotated[str, AfterValidator(_check_source)]
Cpus = Annotated[str, AfterValidator(_check_cpus)]
Release = Annotated[str, AfterValidator(_check_release), _releases(INSTALLED)]
RunnerRelease = Annotated[str, AfterValidator(_check_runner_release), _releases(INSTALLED, toolchains.SAME)]
FilePath = Annotated[Path, Field(strict=False), BeforeValidator(check_path_text), AfterValidator(from_file)]
"""The path is absolute once `load` has read it, because it starts at the sweep file's folder."""
Size = Annotated[int, Field(ge=1, le=65_536)]
Deviation = Annotated[float, Field(gt=0)]


class Part(BaseModel):
    """A block of keys of a sweep file. Unknown keys and values of another type are errors."""

    # Validators are built at their first use, so that commands start faster.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


def check_unique(names: list[str], message: str, *at: str) -> None:
    """Check that all non-empty names are different. `message` has `{}` for the repeated name; the error is located `at`
    below the name's position in the list."""
    earlier: set[str] = set()
    for position, name in enumerate(names):
        if name and name in earlier:
            raise wrong(message.format(repr(name)), position, *at)
        earlier.add(name)
