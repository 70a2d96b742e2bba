"""The journal's sentinels: their blocks, which show in which spans a device's own speed had changed."""

from collections.abc import Iterable, Sequence

from sweeps.journal.file import JournalFile
from sweeps.journal.schema import JOB_DEVICE, JOB_SENTINEL
from sweeps.json_records import from_json
from sweeps.protocol.sentinel_rules import PlacedBlock, Span, changed_spans, doubtful_spans
from sweeps.records import Block


class Sentinels:
    """Sentinels of all jobs. Their blocks are stored as attempts, like the blocks of jobs."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._spans: dict[str, tuple[int | None, list[Span]]] = {}
        """Cache by the sentinel's key: the id of its newest block, and the spans of changed speed up to that block."""

    def forget(self) -> None:
        """Clear the cache of spans: blocks that were read in a transaction no longer exist after its rollback."""
        self._spans.clear()

    def spans(self, sentinel: str) -> list[Span]:
        """Return the spans in which the device's own speed had changed, according to this sentinel: lasting changes and
        doubtful ones.

        The spans are cached until the sentinel has a new block, because this is called for each job that ends.
        """
        [newest] = self._file.row("SELECT max(id) FROM attempts WHERE key = ? AND kind = 'block'", sentinel)
        known = self._spans.get(sentinel)
        if known is None or known[0] != newest:
            known = self._spans[sentinel] = newest, spans_of(self.placed_blocks(sentinel))
        return known[1]

    def placed_blocks(self, sentinel: str) -> list[PlacedBlock]:
        """Return the sentinel's blocks in the order of measuring."""
        return sorted(placed_blocks(self._file, sentinel), key=lambda block: block.position)

    def blocks(self, device_id: str) -> list[tuple[Block, ...]]:
        """Return, for each sentinel that the device ever had, its blocks in the order of measuring."""
        rows = self._file.rows(
            f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?",  # noqa: S608  # expressions of ours
            device_id,
        )
        return [tuple(placed.block for placed in self.placed_blocks(key)) for (key,) in rows if key]

    def keys(self, sweep: str, device_id: str, place_ids: Iterable[str]) -> list[str]:
        """Return the keys of the sentinels of all jobs that have a result on this device in any of these places."""
        keys: dict[str, None] = {}
        for place_id in place_ids:
            rows = self._file.rows(
                f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?3 AND +sweep = ?1"  # noqa: S608
                " AND EXISTS (SELECT 1 FROM results WHERE results.sweep = jobs.sweep"
                " AND results.job_key = jobs.job_key AND place_id = ?2 AND device_id = ?3)",
                sweep,
                place_id,
                device_id,
            )
            keys |= dict.fromkeys(key for (key,) in rows if key)
        return list(keys)


def placed_blocks(file: JournalFile, key: str) -> list[PlacedBlock]:
    """Return the blocks of a job or of a sentinel in order of rounds, each with the id of its attempt as its
    position."""
    rows = file.rows("SELECT id, record FROM attempts WHERE key = ? AND kind = 'block' ORDER BY round", key)
    return [PlacedBlock(position, from_json(Block, record)) for position, record in rows]


def spans_of(blocks: Sequence[PlacedBlock]) -> list[Span]:
    """Return the spans in which a device's own speed had changed, computed from its sentinel's blocks in the order of
    measuring; lasting changes come before doubtful ones."""
    return [*changed_spans(blocks), *doubtful_spans(blocks)]
