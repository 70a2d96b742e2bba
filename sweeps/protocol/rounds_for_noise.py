"""The number of rounds that a preset has on a device whose noise was measured (`edgesweep noise`). Pure.

If the sweep file sets no rounds, a device has as many as tell apart builds that differ by 5 % (`WANTED`), but no fewer
than the preset's rounds and no more than `MOST_ROUNDS`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sweeps.protocol.presets import Protocol
from sweeps.protocol.resolvable_difference import Calibration, rounds_for
from sweeps.spec.protocol import ProtocolSpec

MOST_ROUNDS: Mapping[str, int] = MappingProxyType({"quick": 6, "full": 10})
"""The largest number of rounds by preset; other presets keep their rounds. `quick` may take twice as long, and the
limit of `full` stays as it was: a device that needs more has noise that a person should look at, or needs a race."""


def rounds_by_device(
    spec: ProtocolSpec, protocol: Protocol, noise: Mapping[str, Calibration], before: Mapping[str, int]
) -> tuple[tuple[str, int], ...]:
    """Return `Protocol.rounds_on` of `protocol`, which comes from `spec`: the devices that need more rounds than
    `protocol` has.

    `noise` by device id, if it was measured; `before`: the rounds in the sweep's last plan. Rounds never become fewer
    within one sweep, or jobs that have settled would have followed another rule than the rest.
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
