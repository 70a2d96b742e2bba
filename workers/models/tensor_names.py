"""Names of tensors: takes off what wrappers of a network put around them, until a checkpoint's are the network's."""

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
"""Wrappers of training: by class, the attribute with the network, which in inference they only call. It is a part of
the names of all tensors, at any place. They are listed by name, as their modules take long to import."""
_ATTRIBUTES = tuple(dict.fromkeys(WRAPPERS.values()))
_COUNTER = "n_averaged"
"""The count of an AveragedModel's updates: no part of the network."""
_TRAINING_HEADS = ("aux1", "aux2", "AuxLogits")
"""Heads of torchvision's GoogLeNet and Inception that are used only in training."""
_MOST_LISTED = 3
_MOST_DIMENSIONS = 8
_MOST_NAMES = 0.5
_MOST_PREFIXES = 8
_MOST_EXTRA = 1_000
"""Tensors that a checkpoint may have beyond those of the network: a file with millions is not gone through."""
_MOST_CHARACTERS = 4_096
"""The longest name that something is taken off."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Names without some wrappers. No two are equal."""

    whole: Mapping[str, str]
    """The whole name by the reduced one."""
    prefixes: tuple[str, ...] = ()
    """First parts of names that are taken off."""
    infixes: tuple[str, ...] = ()
    """Parts taken out of names, at any place."""

    @property
    def steps(self) -> tuple[int, int]:
        """The numbers of infixes and prefixes taken off: the less, the better."""
        return len(self.infixes), len(self.prefixes)

    @property
    def words(self) -> str:
        """The parts taken off, for people: `module.model.` and `_orig_mod.`; empty if nothing was."""
        front = "".join(f"{part}." for part in self.prefixes)
        return " and ".join(f"`{short_name(part)}`" for part in (front, *(f"{part}." for part in self.infixes)) if part)


@dataclass(frozen=True, slots=True)
class Match:
    """Names of the network's tensors and of a checkpoint's that mean the same."""

    network: Reduced
    checkpoint: Reduced

    @property
    def is_as_is(self) -> bool:
        """Tell whether no name is changed."""
        return self.network.steps == self.checkpoint.steps == (0, 0)

    @property
    def shared(self) -> list[tuple[str, str]]:
        """The name in the network and in the checkpoint of each tensor that both have."""
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
        """The pairs of `shared` with two shapes."""
        return [(name, stored) for name, stored in self.shared if network[name] != checkpoint[stored]]

    def closeness(self, network: Shapes, checkpoint: Shapes) -> tuple[int, int, int]:
        """A key that orders matches: the larger, the closer."""
        shared = len(self.shared)
        taken_off = sum(self.network.steps) + sum(self.checkpoint.steps)
        return shared - len(self.misshapen(network, checkpoint)), shared, -taken_off

    def is_exact(self, network: Shapes, checkpoint: Shapes) -> bool:
        same_names = self.network.whole.keys() == self.checkpoint.whole.keys()
        return same_names and not self.misshapen(network, checkpoint)


def exact_match(network: Shapes, checkpoint: Shapes) -> Match | None:
    """The match of all names and shapes that takes off least, from the network's names only where it must."""
    if len(checkpoint) < len(network) - 1:  # A checkpoint may lack the counter.
        return None
    exact = (match for match in _matches(network, checkpoint) if match.is_exact(network, checkpoint))
    return min(exact, key=lambda match: (match.network.steps, match.checkpoint.steps), default=None)


def closest_match(network: Shapes, checkpoint: Shapes) -> Match:
    """The match with the most tensors of equal names and shapes; of two with as many, the one that takes off less.

    Beside other names, most of the checkpoint's may have the same first part.
    """
    as_is = Match(*(Reduced({name: name for name in names}) for names in (network, checkpoint)))
    matches = _matches(network, checkpoint, _MOST_NAMES)
    return max(matches, key=lambda match: match.closeness(network, checkpoint), default=as_is)


def differences(network: Shapes, checkpoint: Shapes) -> str:
    """The differences between the closest match and an exact one, side by side; of many names only the first ones."""
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
    """The first parts of names below which all of a network stands, beside others: `ema` of `ema.fc.bias`."""
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
    """The first items with a title; empty if there are none."""
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
    """The names as they are, then less and less of them. `extra`: first parts of names that are left out.

    The part before all names is the attribute that holds the network: `model` in a LightningModule, `module` in an
    EMA. Any is taken off, since names and shapes must be equal afterwards. `share`: of the names, that must have it.
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
    """The renamed names; empty where a name becomes empty, or two become equal."""
    pairs = [(rename(name), origin) for name, origin in whole.items()]
    parts = [pair for pair in pairs if pair[0].partition(".")[0] not in extra]
    unique = dict(parts)
    return {} if "" in unique or len(unique) < len(parts) else unique


def _without(infixes: Collection[str], name: str) -> str:
    *modules, tensor = name.split(".")
    return ".".join([*(module for module in modules if module not in infixes), tensor])


def _below(first: str, name: str) -> str:
    return name.removeprefix(f"{first}.")
