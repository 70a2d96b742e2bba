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
"""By the tensor's name."""

WRAPPERS = {
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.optim.swa_utils.AveragedModel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": "_fsdp_wrapped_module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Wrappers of training: by class, the attribute with the network, which in inference they only call. It is a part of
the names of all tensors, at any place. By name, as their modules take long to import."""
_ATTRIBUTES = tuple(dict.fromkeys(WRAPPERS.values()))
_COUNTER = "n_averaged"
"""How often an AveragedModel was updated: no part of the network."""
_TRAINING_HEADS = ("aux1", "aux2", "AuxLogits")
"""Heads of torchvision's GoogLeNet and Inception that are used only in training."""
_MOST_LISTED = 3
_MOST_DIMENSIONS = 8
_MOST_NAMES = 0.5
_MOST_PREFIXES = 8
_MOST_EXTRA = 1_000
"""Tensors that a checkpoint may have beyond those of the network: a file with millions is not gone through."""
_MOST_CHARACTERS = 4_096
"""Of a name that something is taken off."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Names without some wrappers. No two are equal."""

    whole: Mapping[str, str]
    """The whole name by the reduced one."""
    prefixes: tuple[str, ...] = ()
    """First parts of names, taken off."""
    infixes: tuple[str, ...] = ()
    """Taken out of names, at any place."""

    @property
    def steps(self) -> tuple[int, int]:
        """How much was taken off: the less, the better."""
        return len(self.infixes), len(self.prefixes)

    @property
    def words(self) -> str:
        """What was taken off, for people: `module.model.` and `_orig_mod.`; empty if nothing was."""
        front = "".join(f"{one}." for one in self.prefixes)
        return " and ".join(f"`{short_name(one)}`" for one in (front, *(f"{one}." for one in self.infixes)) if one)


@dataclass(frozen=True, slots=True)
class Match:
    """Names of the network's tensors and of a checkpoint's that mean the same."""

    network: Reduced
    checkpoint: Reduced

    @property
    def is_as_is(self) -> bool:
        """Whether no name is changed."""
        return self.network.steps == self.checkpoint.steps == (0, 0)

    @property
    def shared(self) -> list[tuple[str, str]]:
        """Of each tensor that both have, its name in the network and in the checkpoint."""
        ours, theirs = self.network.whole, self.checkpoint.whole
        return [(ours[name], theirs[name]) for name in ours if name in theirs]

    @property
    def missing(self) -> list[str]:
        """In the checkpoint, by their reduced names."""
        return [name for name in self.network.whole if name not in self.checkpoint.whole]

    @property
    def unexpected(self) -> list[str]:
        return [name for name in self.checkpoint.whole if name not in self.network.whole]

    def misshapen(self, network: Shapes, checkpoint: Shapes) -> list[tuple[str, str]]:
        """Those of `shared` with two shapes."""
        return [(ours, theirs) for ours, theirs in self.shared if network[ours] != checkpoint[theirs]]

    def closeness(self, network: Shapes, checkpoint: Shapes) -> tuple[int, int, int]:
        """Compares matches: the larger, the closer."""
        shared = len(self.shared)
        taken_off = sum(self.network.steps) + sum(self.checkpoint.steps)
        return shared - len(self.misshapen(network, checkpoint)), shared, -taken_off

    def is_exact(self, network: Shapes, checkpoint: Shapes) -> bool:
        same_names = self.network.whole.keys() == self.checkpoint.whole.keys()
        return same_names and not self.misshapen(network, checkpoint)


def exact_match(network: Shapes, checkpoint: Shapes) -> Match | None:
    """The match of all names and shapes that takes off least, from the network's names only where it must."""
    if len(checkpoint) < len(network) - 1:  # the counter
        return None
    exact = (one for one in _matches(network, checkpoint) if one.is_exact(network, checkpoint))
    return min(exact, key=lambda one: (one.network.steps, one.checkpoint.steps), default=None)


def closest_match(network: Shapes, checkpoint: Shapes) -> Match:
    """The match with the most tensors of equal names and shapes; of two with as many, the one that takes off less.

    Beside other names, most of the checkpoint's may have the same first part.
    """
    as_is = Match(*(Reduced({name: name for name in names}) for names in (network, checkpoint)))
    matches = _matches(network, checkpoint, _MOST_NAMES)
    return max(matches, key=lambda one: one.closeness(network, checkpoint), default=as_is)


def differences(network: Shapes, checkpoint: Shapes) -> str:
    """What is between the closest match and an exact one, side by side; of many names only the first ones."""
    match = closest_match(network, checkpoint)

    def two_shapes(names: tuple[str, str]) -> str:
        ours, theirs = names
        return f"{short_name(ours)} is {_shape(checkpoint[theirs])} instead of {_shape(network[ours])}"

    columns = (
        _listed("missing", match.missing, short_name),
        _listed("unexpected", match.unexpected, short_name),
        _listed("of another shape", match.misshapen(network, checkpoint), two_shapes),
    )
    taken_off = f"without {match.checkpoint.words}, " if match.checkpoint.words else ""
    return taken_off + "; ".join(filter(None, columns))


def fitting(network: Shapes, checkpoint: Shapes, depth: int = _MOST_PREFIXES) -> list[str]:
    """What names begin with where all of a network stands below, beside others: `ema` of `ema.fc.bias`."""
    below: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in checkpoint.items():
        first, dot, rest = name.partition(".")
        if dot:
            below.setdefault(first, {})[rest] = shape
    if depth and [len(names) for names in below.values()] == [len(checkpoint)]:
        [(first, names)] = below.items()
        return [f"{first}.{inner}" for inner in fitting(network, names, depth - 1)]
    return [first for first, names in below.items() if exact_match(network, names) is not None]


def _listed(what: str, items: Sequence[Item], words: Callable[[Item], str]) -> str:
    """Empty where there are none."""
    rest = len(items) - _MOST_LISTED
    listed = ", ".join(map(words, items[:_MOST_LISTED]))
    return f"{what}: {listed}{f' and {rest:,} more' if rest > 0 else ''}" if items else ""


def _shape(sizes: tuple[int, ...]) -> str:
    more = ", ..." if len(sizes) > _MOST_DIMENSIONS else ""
    return f"[{', '.join(map(str, sizes[:_MOST_DIMENSIONS]))}{more}]"


def _matches(network: Shapes, checkpoint: Shapes, share: float = 1.0) -> Iterator[Match]:
    if len(checkpoint) > len(network) + _MOST_EXTRA or any(len(name) > _MOST_CHARACTERS for name in checkpoint):
        return
    ours = list(_reductions(network, _absent(checkpoint, (_COUNTER,)), 1.0))
    for theirs in _reductions(checkpoint, _absent(network, (_COUNTER, *_TRAINING_HEADS)), share):
        for one in ours:
            yield Match(one, theirs)


def _absent(names: Collection[str], parts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(parts) - {part for name in names for part in name.split(".")}


def _reductions(names: Collection[str], extra: Collection[str], share: float) -> Iterator[Reduced]:
    """The names as they are, then less and less of them. `extra`: first parts of names that are left out.

    What stands before all names is the attribute that holds the network: `model` in a LightningModule, `module` in an
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
    """Empty where a name becomes empty, or two become equal."""
    pairs = [(rename(name), origin) for name, origin in whole.items()]
    parts = [pair for pair in pairs if pair[0].partition(".")[0] not in extra]
    unique = dict(parts)
    return {} if "" in unique or len(unique) < len(parts) else unique


def _without(infixes: Collection[str], name: str) -> str:
    *modules, tensor = name.split(".")
    return ".".join([*(one for one in modules if one not in infixes), tensor])


def _below(first: str, name: str) -> str:
    return name.removeprefix(f"{first}.")
