"""Caches the results of build stages by key, so that each stage runs once for all variants that share it.

Modules are cached in the memory of the building process; the least recently used ones are evicted first. Calibrations,
which take longest, are also stored on disk, as tensors, for all processes of this machine and for later runs.
"""

import io
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch

from sweeps.device_facts import canonical_key
from sweeps.errors import BuildError
from sweeps.locks import locked
from sweeps.whole_file import write_whole
from workers.models.package import BuildInputs
from workers.runtimes.builder_code import code_of

Made = TypeVar("Made")
Tensors = Mapping[str, torch.Tensor]

MEMORY_BYTES = 3 * 2**30
"""Limit in bytes for cached weights: nine stages of ViT-B/16, the largest model of the zoo."""


class Stages:
    """The cache of one process. `folder` is shared by the processes of one machine; with `None` nothing is stored on
    disk."""

    def __init__(self, folder: Path | None = None, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._limit = memory_bytes
        self._results: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._copy = 0
        self.ran: Counter[str] = Counter()
        """The number of times that each stage ran instead of coming from the cache, by name."""

    def module(self, name: str, key: str, make: Callable[[], Made]) -> Made:
        """Return the result of the stage `name` for `key`; runs it if it is not cached. Callers must not change the
        result."""
        if key in self._results:
            self._results.move_to_end(key)
            cached: Made = self._results[key][0]
            return cached
        result = make()
        self.ran[name] += 1
        if name == "load":
            self._copy = _bytes(result)
        self._keep(key, result)
        return result

    def tensors(self, name: str, key: str, make: Callable[[], Tensors]) -> Tensors:
        """Return the result of a stage that consists only of tensors: one process computes them, the other processes
        wait."""
        folder = self._folder
        if folder is None or key in self._results:
            return self.module(name, key, make)
        path = folder / f"{key}.pt"
        with locked(path.with_suffix(".lock")):
            stored = _read(path)
            if stored is None:
                stored = make()
                self.ran[name] += 1
                _write(path, stored)
        self._keep(key, stored)
        return stored

    def _keep(self, key: str, result: object) -> None:
        # Frozen or packed modules list no weights, so each stage counts as at least one copy of the float model.
        self._results[key] = result, max(_bytes(result), self._copy)
        while len(self._results) > 1 and sum(size for _, size in self._results.values()) > self._limit:
            self._results.popitem(last=False)


@cache
def stages_of(shared: Path | None) -> Stages:
    """Return the cache of this process for one folder."""
    return Stages(shared)


class ByteStages:
    """The stages of one model in a runtime whose stages return bytes, such as files; `module` is for results that are
    no bytes."""

    def __init__(self, package: Path, inputs: BuildInputs, shared: Path | None, **flags: object) -> None:
        """`package`: the folder of the runtime's code. `flags`: further values on which all stages depend."""
        self._stages = stages_of(shared)
        model = inputs.package
        self._of_model = {
            "model_source": model.model_source,
            "arguments": dict(model.arguments),
            "weights_id": model.weights_id,
            "input_shape": list(model.input_shape),
            "versions": dict(inputs.versions),
            "code": code_of(package),
            **flags,
        }

    def once(self, stage: str, make: Callable[[], bytes], **flags: object) -> bytes:
        """Return the result of `stage`; `flags` are further values on which it depends. Raises what `make` raises."""
        key = self._key(stage, flags)

        def content() -> dict[str, torch.Tensor]:
            return {"content": torch.frombuffer(bytearray(make()), dtype=torch.uint8)}

        return bytes(self._stages.tensors(stage, key, content)["content"].numpy().tobytes())

    def module(self, stage: str, make: Callable[[], Made], **flags: object) -> Made:
        """Return the result of a stage that stays in the memory of this process. Callers must not change it."""
        return self._stages.module(stage, self._key(stage, flags), make)

    def _key(self, stage: str, flags: Mapping[str, object]) -> str:
        return canonical_key({"stage": stage, **self._of_model, **flags})


def _bytes(result: object) -> int:
    """Return the size of the weights that `result` lists."""
    tensors: list[torch.Tensor] = []
    if isinstance(result, torch.nn.Module):
        tensors = [*result.parameters(), *result.buffers()]
    elif isinstance(result, Mapping):
        tensors = [value for value in result.values() if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _read(path: Path) -> Tensors | None:
    try:
        stored: Tensors = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BuildError("os_error", f"{path} cannot be read: {error.strerror}") from error
    except Exception:  # noqa: BLE001  # torch raises any exception on a damaged file: create it again
        path.unlink(missing_ok=True)
        return None
    return stored


def _write(path: Path, tensors: Tensors) -> None:
    content = io.BytesIO()
    torch.save(dict(tensors), content)
    write_whole(path, content.getvalue(), durable=True)
