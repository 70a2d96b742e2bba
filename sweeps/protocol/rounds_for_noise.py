"""The number of rounds that a preset has on a device whose noise was measured (`edgesweep noise`). Pure.

Where the sweep file gives no rounds, they are as many as tell builds apart that differ by 5 % (`WANTED`), but no fewer
than the preset's own and no more than `MOST_ROUNDS`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sweeps.protocol.presets import Protocol
from sweeps.protocol.resolvable_difference import Calibration, rounds_for
from sweeps.spec.protocol import ProtocolSpec

MOST_ROUNDS: Mapping[str, int] = MappingProxyType({"quick": 6, "full": 10})
"""The largest number of rounds by preset; other presets keep their rounds. A first look may take twice as long, and
`full` ends where it always ended: what needs more is noise that a person should look at, or the work of a race."""


def rounds_by_device(
    spec: ProtocolSpec, protocol: Protocol, noise: Mapping[str, Calibration], before: Mapping[str, int]
) -> tuple[tuple[str, int], ...]:
    """Return `Protocol.rounds_on` of `protocol`, which comes from `spec`: the devices that need more rounds than it
    has.

    `noise` by device id, where it is known; `before`: the rounds that the sweep had by its last plan. Rounds never
    become fewer within one sweep, or what was settled would be so by another rule than the rest.
    """
    most = MOST_ROUNDS.get(protocol.preset)
    if most is None or protocol.budget != "full" or spec.rounds is not None:
        return ()
    if spec.max_rounds is not None:
        most = min(most, spec.max_rounds)
    rounds_on = dict(before)
    for device_id, calibration in noise.items():
        needed = rounds_for(calibration.block_under(protocol))
        rounds_on[device_id] = max(most if needed is None else needed, rounds_on.get(device_id, 0))
    limited = {device_id: min(most, rounds) for device_id, rounds in sorted(rounds_on.items())}
    return tuple((device_id, rounds) for device_id, rounds in limited.items() if rounds > protocol.rounds)
