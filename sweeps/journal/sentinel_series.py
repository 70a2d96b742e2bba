"""The speed of a workspace's devices over their sessions, as the sentinels' blocks show it."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sweeps.journal.journal import Journal
from sweeps.protocol.clock import figure_ns
from sweeps.ranking.session_ratio import Series


def sentinel_series(path: Path, device_ids: Iterable[str]) -> dict[str, tuple[Series, ...]]:
    """Return, by device id, a series for each of the device's sentinels: each block's figure in ms, and the start of
    its session. Empty if there is no journal at `path`.

    Raises `StoreError` if the journal cannot be read.
    """
    if not path.exists():
        return {}
    with Journal.open(path, read_only=True) as journal:
        session_start = cache(journal.times.session_start)
        return {
            device_id: tuple(
                Series(
                    tuple(figure_ns(block.samples_ns) / 1e6 for block in blocks),
                    tuple(session_start(device_id, block.session) or 0 for block in blocks),
                )
                for blocks in journal.sentinels.blocks(device_id)
                if blocks
            )
            for device_id in device_ids
        }
