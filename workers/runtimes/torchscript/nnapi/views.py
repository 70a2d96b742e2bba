"""Reshapes and permutations of a tensor, represented symbolically until an operation needs the values.

NNAPI has RESHAPE, and TRANSPOSE of at most four dimensions. A chain of view, permute and flatten becomes at most one
TRANSPOSE between two RESHAPEs, usually less: dimensions that stay adjacent are moved together. So ShuffleNet's
five-dimensional channel shuffle is possible, and ConvNeXt's permutations disappear in NHWC.
"""

from dataclasses import dataclass, replace
from math import prod

from sweeps.errors import BuildError

MOST_DIMENSIONS = 4
"""The limit of NNAPI tensors for almost all operations."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """An indivisible factor of a dimension, compared by identity. There are no factors of size 1."""

    size: int
    flexible: bool = False


Dimension = tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps from a tensor to a view of it: RESHAPE to `before`, TRANSPOSE by `permutation`, RESHAPE to the target.
    -1 stands for the flexible batch."""

    before: tuple[int, ...]
    permutation: tuple[int, ...]

    @property
    def transposes(self) -> bool:
        """Tell whether values change their order in memory."""
        return list(self.permutation) != sorted(self.permutation)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor as PyTorch sees it (`dimensions`), over memory whose factors lie in the order `memory`."""

    memory: Dimension
    dimensions: tuple[Dimension, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], order: tuple[int, ...], *, flexible_batch: bool) -> "View":
        """Return the view of a tensor of PyTorch's `shape` whose dimensions lie in memory in the order `order`,
        outermost first."""
        flexible = [flexible_batch and index == 0 for index in range(len(shape))]
        dimensions = tuple(
            (Factor(size, free),) if size != 1 or free else () for size, free in zip(shape, flexible, strict=True)
        )
        return cls(tuple(factor for index in order for factor in dimensions[index]), dimensions)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in PyTorch's order; 0 is the flexible batch."""
        return tuple(_size(dimension, flexible=0) for dimension in self.dimensions)

    def permuted(self, order: tuple[int, ...]) -> "View":
        return replace(self, dimensions=tuple(self.dimensions[index] for index in order))

    def widened(self, dimensions: int) -> "View":
        """Return the view with this number of additional dimensions of size 1 in front."""
        return replace(self, dimensions=((),) * dimensions + self.dimensions)

    def reshaped(self, shape: tuple[int, ...]) -> "View":
        """Return the view in another shape. Raises `BuildError` if `shape` splits a dimension unevenly, or joins or
        splits the flexible batch."""
        memory = list(self.memory)
        left = [factor for dimension in self.dimensions for factor in dimension]
        dimensions: list[Dimension] = []
        for size in shape:
            joined: list[Factor] = []
            missing = size
            while missing > 1:
                factor = left.pop(0)
                if factor.size > missing and factor.size % missing == 0 and not factor.flexible:
                    parts = [Factor(missing), Factor(factor.size // missing)]
                    at = memory.index(factor)
                    memory[at : at + 1] = parts
                    left.insert(0, parts[1])
                    factor = parts[0]
                if missing % factor.size or (factor.flexible and factor.size != size):
                    raise _refused(self.shape, shape)
                missing //= factor.size
                joined.append(factor)
            dimensions.append(tuple(joined))
        return View(tuple(memory), tuple(dimensions))

    def steps(self, order: tuple[int, ...]) -> Steps:
        """Return the steps from the memory to a tensor with its dimensions in the order `order`, outermost first.

        Raises `BuildError` if they need a TRANSPOSE of more than four dimensions.
        """
        factors = [factor for index in order for factor in self.dimensions[index]]
        positions = [self.memory.index(factor) for factor in factors]
        groups: list[list[int]] = []
        for position in positions:
            follows = groups and groups[-1][-1] + 1 == position
            if follows and not self.memory[position].flexible and not self.memory[position - 1].flexible:
                groups[-1].append(position)
            else:
                groups.append([position])
        by_memory = sorted(groups)
        permutation = tuple(by_memory.index(group) for group in groups)
        if len(groups) > MOST_DIMENSIONS and list(permutation) != sorted(permutation):
            raise BuildError("unsupported_operator", f"a permutation of {len(groups)} dimensions; NNAPI takes four")
        before = tuple(_size(tuple(self.memory[at] for at in group), flexible=-1) for group in by_memory)
        return Steps(before or (1,), permutation or (0,))


def _size(dimension: Dimension, flexible: int) -> int:
    return flexible if any(factor.flexible for factor in dimension) else prod(factor.size for factor in dimension)


def _refused(shape: tuple[int, ...], target: tuple[int, ...]) -> BuildError:
    batch = " with a flexible batch" if 0 in shape else ""
    return BuildError("unsupported_operator", f"a reshape from {list(shape)} to {list(target)}{batch}")
