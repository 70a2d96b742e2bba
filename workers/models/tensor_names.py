"""Matches the tensor names of a checkpoint with a network's: removes the parts that wrappers added to them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TypeVar

from sweeps.text import short_name

Item = TypeVar("Item")

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes by the tensor's name."""

WRAPPERS = {
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Training wrappers by class: the attribute that holds the network, which they only call in inference. The attribute is
a part of all tensor names, at any place. The classes are given by name, as their modules take long to import."""
_ATTRIBUTES = tuple(dict.fromkeys(WRAPPERS.values()))
_COUNTER = "n_averaged"
"""The counter of an AveragedModel's updates: it is no part of the network."""
_TRAINING_HEADS = ("aux1", "aux2", "AuxLogits")
"""Heads of torchvision's GoogLeNet and Inception that are used only in training."""
_MOST_LISTED = 3
_MOST_DIMENSIONS = 8
_MOST_NAMES = 0.5
_MOST_PREFIXES = 8
_MOST_EXTRA = 1_000
"""The number of tensors that a checkpoint may have beyond those of the network: a file with millions is not
searched."""
_MOST_CHARACTERS = 4_096
"""The longest tensor name: a checkpoint with a longer one is not searched for a match."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Tensor names from which the parts that some wrappers added are removed. No two are equal."""

    whole: Mapping[str, str]
    """The whole name by the reduced one."""
    prefixes: tuple[str, ...] = ()
    """The first parts that were removed from the names."""
    infixes: tuple[str, ...] = ()
    """The parts that were removed from inside the names, at any place."""

    @property
    def steps(self) -> tuple[int, int]:
        """The numbers of infixes and prefixes removed: the fewer, the better."""
        return len(self.infixes), len(self.prefixes)

    @property
    def words(self) -> str:
        """The removed parts, for people: `module.model.` and `_orig_mod.`; empty if none was removed."""
        front = "".join(f"{part}." for part in self.prefixes)
        return " and ".join(f"`{short_name(part)}`" for part in (front, *(f"{part}." for part in self.infixes)) if part)


@dataclass(frozen=True, slots=True)
class Match:
    """The pairing of the network's tensor names with a checkpoint's."""

    network: Reduced
    checkpoint: Reduced

    @property
    def is_as_is(self) -> bool:
        """Tell whether no name is changed."""
        return self.network.steps == self.checkpoint.steps == (0, 0)

    @property
    def shared(self) -> list[tuple[str, str]]:
        """The tensors that both have: for each, its name in the network and its name in the checkpoint."""
        own, stored = self.network.whole, self.checkpoint.whole
        return [(own[name], stored[name]) for name in own if name in stored]

    @property
    def missing(self) -> list[str]:
        """The reduced names that the checkpoint lacks."""
        return [name for name in self.network.whole if name not in self.checkpoint.whole]

    @property
    def unexpected(self) -> list[str]:
        return [name for name in self.checkpoint.whole if name not in self.network.whole]

    def misshapen(self, network: Shapes, checkpoint: Shapes) -> list[tuple[str, str]]:
        """Return the pairs of `shared` whose shapes differ."""
        return [(name, stored) for name, stored in self.shared if network[name] != checkpoint[stored]]

    def closeness(self, network: Shapes, checkpoint: Shapes) -> tuple[int, int, int]:
        """Return a key that orders matches: the larger, the closer."""
        shared = len(self.shared)
        taken_off = sum(self.network.steps) + sum(self.checkpoint.steps)
        return shared - len(self.misshapen(network, checkpoint)), shared, -taken_off

    def is_exact(self, network: Shapes, checkpoint: Shapes) -> bool:
        same_names = self.network.whole.keys() == self.checkpoint.whole.keys()
        return same_names and not self.misshapen(network, checkpoint)


def exact_match(network: Shapes, checkpoint: Shapes) -> Match | None:
    """Return the match of all names and shapes that removes the fewest parts, from the network's names only if it must;
    `None` if there is none."""
    if len(checkpoint) < len(network) - 1:  # A checkpoint may lack the counter.
        return None
    exact = (match for match in _matches(network, checkpoint) if match.is_exact(network, checkpoint))
    return min(exact, key=lambda match: (match.network.steps, match.checkpoint.steps), default=None)


def closest_match(network: Shapes, checkpoint: Shapes) -> Match:
    """Return the match with the most tensors of equal names and shapes; of two with as many, the one that removes fewer
    parts.

    A first part is removed even if only half of the checkpoint's names have it.
    """
    as_is = Match(*(Reduced({name: name for name in names}) for names in (network, checkpoint)))
    matches = _matches(network, checkpoint, _MOST_NAMES)
    return max(matches, key=lambda match: match.closeness(network, checkpoint), default=as_is)


def differences(network: Shapes, checkpoint: Shapes) -> str:
    """Return the differences between the closest match and an exact one, by kind; of many names only the first ones."""
    match = closest_match(network, checkpoint)

    def two_shapes(names: tuple[str, str]) -> str:
        name, stored = names
        return f"{short_name(name)} is {_shape(checkpoint[stored])} instead of {_shape(network[name])}"

    columns = (
        _listed("missing", match.missing, short_name),
        _listed("unexpected", match.unexpected, short_name),
        _listed("of another shape", match.misshapen(network, checkpoint), two_shapes),
    )
    taken_off = f"without {match.checkpoint.words}, " if match.checkpoint.words else ""
    return taken_off + "; ".join(filter(None, columns))


def fitting(network: Shapes, checkpoint: Shapes, depth: int = _MOST_PREFIXES) -> list[str]:
    """Return the first parts of names below which all tensors of a network are found: `ema` of `ema.fc.bias`."""
    below: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in checkpoint.items():
        first, dot, rest = name.partition(".")
        if dot:
            below.setdefault(first, {})[rest] = shape
    if depth and [len(names) for names in below.values()] == [len(checkpoint)]:
        [(first, names)] = below.items()
        return [f"{first}.{inner}" for inner in fitting(network, names, depth - 1)]
    return [first for first, names in below.items() if exact_match(network, names) is not None]


def _listed(title: str, items: Sequence[Item], words: Callable[[Item], str]) -> str:
    """Return the first items with a title; empty if there are none."""
    rest = len(items) - _MOST_LISTED
    listed = ", ".join(map(words, items[:_MOST_LISTED]))
    return f"{title}: {listed}{f' and {rest:,} more' if rest > 0 else ''}" if items else ""


def _shape(sizes: tuple[int, ...]) -> str:
    more = ", ..." if len(sizes) > _MOST_DIMENSIONS else ""
    return f"[{', '.join(map(str, sizes[:_MOST_DIMENSIONS]))}{more}]"


def _matches(network: Shapes, checkpoint: Shapes, share: float = 1.0) -> Iterator[Match]:
    if len(checkpoint) > len(network) + _MOST_EXTRA or any(len(name) > _MOST_CHARACTERS for name in checkpoint):
        return
    own_names = list(_reductions(network, _absent(checkpoint, (_COUNTER,)), 1.0))
    for stored in _reductions(checkpoint, _absent(network, (_COUNTER, *_TRAINING_HEADS)), share):
        for own in own_names:
            yield Match(own, stored)


def _absent(names: Collection[str], parts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(parts) - {part for name in names for part in name.split(".")}


def _reductions(names: Collection[str], extra: Collection[str], share: float) -> Iterator[Reduced]:
    """Yield the names as they are, then with more and more parts removed. `extra`: names with these first parts are
    left out.

    The first part of all names is the attribute that holds the network: `model` in a LightningModule, `module` in an
    EMA. Any first part is removed, since names and shapes must be equal afterwards. `share`: the share of the names
    that must have it.
    """
    as_is = {name: name for name in names}
    yield Reduced(as_is)
    within = [word for word in _ATTRIBUTES if any(word in name.split(".")[:-1] for name in names)]
    for count in range(len(within) + 1):
        for infixes in combinations(within, count):
            prefixes: tuple[str, ...] = ()
            whole = _renamed(as_is, partial(_without, infixes), extra)
            while whole:
                yield Reduced(whole, prefixes, infixes)
                firsts = Counter(name.partition(".")[0] for name in whole if "." in name)
                first, count = firsts.most_common(1)[0] if firsts else ("", 0)
                if count < share * len(whole) or len(prefixes) == _MOST_PREFIXES:
                    break
                prefixes = (*prefixes, first)
                whole = _renamed(whole, partial(_below, first), extra)


def _renamed(whole: Mapping[str, str], rename: Callable[[str], str], extra: Collection[str]) -> dict[str, str]:
    """Return the whole names by renamed name; empty if a name becomes empty, or two become equal."""
    pairs = [(rename(name), origin) for name, origin in whole.items()]
    parts = [pair for pair in pairs if pair[0].partition(".")[0] not in extra]
    unique = dict(parts)
    return {} if "" in unique or len(unique) < len(parts) else unique


def _without(infixes: Collection[str], name: str) -> str:
    *modules, tensor = name.split(".")
    return ".".join([*(module for module in modules if module not in infixes), tensor])


def _below(first: str, name: str) -> str:
    return name.removeprefix(f"{first}.")
