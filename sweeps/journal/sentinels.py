"""The journal's sentinels: their blocks, which tell where a device changed its speed."""

from collections.abc import Iterable, Sequence

from sweeps.journal.file import JournalFile
from sweeps.journal.schema import JOB_DEVICE, JOB_SENTINEL
from sweeps.json_records import from_json
from sweeps.protocol.sentinel_rules import PlacedBlock, Span, changed_spans, doubtful_spans
from sweeps.records import Block


class Sentinels:
    """The sentinels of all jobs. Their blocks are attempts as those of any job."""

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._spans: dict[str, tuple[int | None, list[Span]]] = {}
        """The id of each sentinel's newest block, and the spans in which the device changed up to that block."""

    def forget(self) -> None:
        """Forget the spans: blocks that were read in a transaction are not there after it was rolled back."""
        self._spans.clear()

    def spans(self, sentinel: str) -> list[Span]:
        """The spans in which the device changed, by this sentinel: for good, or in doubt.

        The sentinel's blocks are read again only when there is a new one: each job that ends asks.
        """
        [newest] = self._file.row("SELECT max(id) FROM attempts WHERE key = ? AND kind = 'block'", sentinel)
        known = self._spans.get(sentinel)
        if known is None or known[0] != newest:
            known = self._spans[sentinel] = newest, spans_of(self.placed_blocks(sentinel))
        return known[1]

    def placed_blocks(self, sentinel: str) -> list[PlacedBlock]:
        """The sentinel's blocks in the order of measuring."""
        return sorted(placed_blocks(self._file, sentinel), key=lambda block: block.position)

    def blocks(self, device_id: str) -> list[tuple[Block, ...]]:
        """The blocks of each sentinel that the device ever had, in the order of measuring."""
        rows = self._file.rows(
            f"SELECT DISTINCT {JOB_SENTINEL} FROM jobs WHERE {JOB_DEVICE} = ?",  # noqa: S608  # expressions of ours
            device_id,
        )
        return [tuple(placed.block for placed in self.placed_blocks(key)) for (key,) in rows if key]

    def keys(self, sweep: str, device_id: str, place_ids: Iterable[str]) -> list[str]:
        """The keys of the sentinels of those jobs that have a result on this device, under any of these places."""
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
    """The blocks of a job, or of a sentinel, in order of rounds."""
    rows = file.rows("SELECT id, record FROM attempts WHERE key = ? AND kind = 'block' ORDER BY round", key)
    return [PlacedBlock(position, from_json(Block, record)) for position, record in rows]


def spans_of(blocks: Sequence[PlacedBlock]) -> list[Span]:
    """The spans in which a device changed, by the blocks of its sentinel in the order of measuring: those that changed
    for good come first."""
    return [*changed_spans(blocks), *doubtful_spans(blocks)]
