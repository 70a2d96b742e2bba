"""Loads a checkpoint in the form that people saved: finds the mapping of tensors that fits a network, and loads it."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from sweeps.errors import ModelError, did_you_mean
from sweeps.text import LONGEST_NAME, short_name, some
from workers.models import checkpoint_file, tensor_names, weights
from workers.models.weights import State

_WHOLE_FILE = "."
"""The `weights_key` of the file's own top level."""
_DEEPEST = 5
_MOST_MAPPINGS = 256
_MOST_ANSWERS = 8
_MOST_KEYS = 8
_WORDS = {torch.float16: "half", torch.float64: "double"}


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping in a checkpoint file that holds tensors directly, not only in mappings inside it."""

    keys: tuple[str, ...]
    """The keys that lead to the mapping; none for the file's own top level."""
    mapping: Mapping[Any, Any]

    @property
    def path(self) -> str:
        """The part's name in `weights_key`."""
        return ".".join(self.keys) or _WHOLE_FILE

    @property
    def shapes(self) -> tensor_names.Shapes:
        return weights.shapes(self.mapping)

    def not_dense(self) -> tuple[str, str] | None:
        """Return the name and the kind of the first tensor that `copy_`, which loads a state_dict, supports only
        partly; `None` if there is none."""
        kinds = ((name, _kind(value)) for name, value in weights.tensors(self.mapping).items())
        return next(((name, kind) for name, kind in kinds if kind is not None), None)


@dataclass(frozen=True, slots=True)
class Fit:
    """A part of a checkpoint whose tensors match those of the network."""

    part: Part
    match: tensor_names.Match

    def state(self, network: State) -> dict[str, torch.Tensor]:
        """Return the tensors under the network's names and in the network's dtypes. All shapes are the network's, which
        bounds the work."""
        return {name: self.part.mapping[stored].to(network[name].dtype) for name, stored in self.match.shared}

    def text(self, network: State) -> str:
        """Return a description of the changes that loading makes; empty if the file is loaded unchanged."""
        shared = self.match.shared
        done = []
        if words := self.match.checkpoint.words:
            done.append(f"{words} taken off {len(shared)} names")
        if words := self.match.network.words:
            done.append(f"{words} of the network put before {len(shared)} names")
        if left := sorted(self.part.shapes.keys() - {stored for _, stored in shared}):
            done.append(f"{some([short_name(name) for name in left])} left out")
        changes = Counter(_change(self.part.mapping[stored].dtype, network[name].dtype) for name, stored in shared)
        done += [words.format(count) for words, count in changes.items() if words]
        if not done and not self.part.keys:
            return ""
        place = f" from `{short_name(self.part.path)}`" if self.part.keys else ""
        return ", ".join([f"the weights were read{place}", *done])


def load(network: torch.nn.Module, path: Path, weights_key: str | None = None) -> str:
    """Load the tensors of a checkpoint into `network`; return a description of the changes made for it, empty if there
    are none.

    The mapping that fits is found anywhere in the file, with its tensor names as they are, or without the parts that
    wrappers added to them. `weights_key`: the keys that lead to the mapping. Raises `ModelError` if no mapping fits, or
    if several fit that differ.
    """
    content = checkpoint_file.read(path)
    parts = _parts(content)
    if weights_key is not None:
        parts = _named(weights_key, content, parts, path)
    if not parts:
        raise ModelError(
            f"{path} holds no state_dict{_top(content)}", "save it with torch.save(model.state_dict(), path)"
        )
    own = weights.tensors(network.state_dict())
    fit = _chosen(_fits(weights.shapes(own), parts), own, path)
    if fit is None:
        raise _unfit(weights.shapes(own), parts, content, path)
    text = fit.text(own)
    weights.put(network, fit.part.mapping, fit.match, str(path))
    return text


def _parts(content: Mapping[Any, Any], *start: str) -> list[Part]:
    """Return the mappings with tensors, from the top down. A file can contain itself, or one mapping at many places."""
    parts: list[Part] = []
    waiting = deque([Part(start, content)])
    visited: set[int] = set()
    while waiting and len(visited) < _MOST_MAPPINGS:
        part = waiting.popleft()
        if id(part.mapping) in visited:
            continue
        visited.add(id(part.mapping))
        if part.shapes:
            parts.append(part)
        if len(part.keys) < _DEEPEST:
            inner = islice(_mappings(part.mapping), _MOST_MAPPINGS)
            waiting.extend(Part((*part.keys, key), mapping) for key, mapping in inner)
    return parts


def _mappings(content: Mapping[Any, Any]) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    return ((key, value) for key, value in content.items() if isinstance(key, str) and isinstance(value, Mapping))


def _named(weights_key: str, content: Mapping[Any, Any], parts: Sequence[Part], path: Path) -> list[Part]:
    """Return the parts at and below a key. Raises `ModelError` if there are none."""
    if weights_key == _WHOLE_FILE:
        return [Part((), content)]
    named = _parts(_below(content, weights_key), weights_key)
    if not named:
        known = [part.path for part in parts if len(part.path) <= LONGEST_NAME]
        raise ModelError(
            f"{path} has no tensors at weights_key: {weights_key}{did_you_mean(weights_key, known)}{_top(content)}",
            f"give one of: {some(known)}" if known else "leave weights_key: out",
        )
    return named


def _below(content: Mapping[Any, Any], key: str) -> Mapping[Any, Any]:
    """Return the mapping at a dotted key. If no nested mapping has the last parts of the key, return the values whose
    names begin with these parts."""
    words = key.split(".")
    for end in range(len(words), 0, -1):
        inner = content.get(".".join(words[:end]))
        if isinstance(inner, Mapping):
            return _below(inner, ".".join(words[end:])) if words[end:] else inner
    return {
        name.removeprefix(f"{key}."): value
        for name, value in content.items()
        if isinstance(name, str) and name.startswith(f"{key}.")
    }


def _fits(network: tensor_names.Shapes, parts: Sequence[Part]) -> list[Fit]:
    matches = [(part, tensor_names.exact_match(network, part.shapes)) for part in parts]
    return [Fit(part, match) for part, match in matches if match is not None]


def _chosen(fits: Sequence[Fit], network: State, path: Path) -> Fit | None:
    """Return the fit to load. Raises `ModelError` if two fits give the network different weights, or if none has only
    dense tensors."""
    dense = [fit for fit in fits if fit.part.not_dense() is None]
    if fits and not dense:
        _check_dense(fits[0].part, path)
    answers: list[tuple[Fit, dict[str, torch.Tensor]]] = []
    for fit in dense:
        state = fit.state(network)
        if not any(_are_equal(state, other) for _, other in answers):
            answers.append((fit, state))
        if len(answers) == _MOST_ANSWERS:
            break
    if len(answers) > 1:
        keys = [f"`{short_name(fit.part.path)}`" for fit, _ in answers]
        raise ModelError(
            f"{path} holds {len(answers)} sets of weights that fit the model, and they differ: {', '.join(keys)}",
            "name the one to take: weights_key: beside weights: in the sweep file, --weights-key of edgesweep init",
        )
    return answers[0][0] if answers else None


def _are_equal(state: State, other: State) -> bool:
    return state.keys() == other.keys() and all(torch.equal(state[name], other[name]) for name in state)


def _unfit(network: tensor_names.Shapes, parts: Sequence[Part], content: Mapping[Any, Any], path: Path) -> ModelError:
    """Return the error that says why the part that is closest to the network does not fit it."""

    def closeness(part: Part) -> tuple[int, int, int]:
        shapes = part.shapes
        return tensor_names.closest_match(network, shapes).closeness(network, shapes)

    closest = max(parts, key=closeness)
    _check_dense(closest, path)
    where = f", at `{short_name(closest.path)}`" if closest.keys else ""
    message = (
        f"{path} does not fit the model{where}: {tensor_names.differences(network, closest.shapes)}{_top(content)}"
    )
    inside = [".".join((*part.keys, name)) for part in parts for name in tensor_names.fitting(network, part.shapes)]
    if inside:
        return ModelError(message, f"to take only what fits: weights_key: {some([short_name(key) for key in inside])}")
    return ModelError(message, weights.OTHER_ARGUMENTS)


def _check_dense(part: Part, path: Path) -> None:
    if (not_dense := part.not_dense()) is not None:
        name, kind = not_dense
        advice = {
            "quantized": "give the fp32 weights; EdgeSweep makes int8 of them itself",
            "a meta tensor (without data)": "save it with the weights loaded: meta tensors hold none",
        }.get(kind, "save it with dense tensors of real numbers")
        raise ModelError(f"the tensor {short_name(name)} in {path} is {kind}, not dense float or int", advice)


def _kind(tensor: torch.Tensor) -> str | None:
    """Return the kind of a tensor that is not dense or not of real numbers; `None` for a dense tensor of real
    numbers."""
    if tensor.is_quantized:
        return "quantized"
    if tensor.is_meta:
        return "a meta tensor (without data)"
    if tensor.is_nested:
        return "nested"
    if tensor.layout != torch.strided:
        return f"sparse ({tensor.layout})" if "sparse" in str(tensor.layout) else f"of the layout {tensor.layout}"
    return f"complex ({tensor.dtype})" if tensor.is_complex() else None


def _change(stored: torch.dtype, used: torch.dtype) -> str:
    """Return how loading changes the dtype of tensors, with `{}` for their number; empty if it changes no
    floating-point dtype."""
    if stored == used or not stored.is_floating_point:
        return ""
    how = "widened" if stored.itemsize < used.itemsize else "narrowed"
    return f"{{}} {_WORDS.get(stored, str(stored).removeprefix('torch.'))} tensors {how}"


def _top(content: Mapping[Any, Any]) -> str:
    """Return the keys of a file's top level, as the end of an error message."""
    tensors = len(weights.shapes(content))
    entries = [(key, value) for key, value in content.items() if not isinstance(value, torch.Tensor)]
    keys = [_key_text(key, value) for key, value in entries[:_MOST_KEYS]]
    keys += [f"{len(entries) - _MOST_KEYS} more"] if len(entries) > _MOST_KEYS else []
    keys += [f"{tensors} tensors"] if tensors else []
    return f"; at its top the file has {', '.join(keys)}" if entries else ""


def _key_text(key: object, value: object) -> str:
    name = short_name(key) if isinstance(key, str) else type(key).__name__
    count = len(weights.shapes(value)) if isinstance(value, Mapping) else 0
    return f"{name} ({count} tensors)" if count else name
