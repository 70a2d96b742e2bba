"""Damages of model files: seeded, each of another kind or at another place."""

import random
from collections.abc import Iterator


def damaged(content: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """Damage `content` so many times: flip bits, cut it short, or put bytes from elsewhere into it."""
    written = 0
    while written < count:
        kind = written % 3
        at = chance.randrange(len(content))
        if kind == 0:
            changed = bytearray(content)
            for _ in range(chance.choice([1, 1, 4, 16])):
                changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            broken = bytes(changed)
        elif kind == 1:
            broken = content[:at]
        else:
            source, length = chance.randrange(len(content)), chance.choice([1, 8, 64, 512])
            broken = content[:at] + content[source : source + length] + content[at + length :]
        if broken != content:
            written += 1
            yield broken
