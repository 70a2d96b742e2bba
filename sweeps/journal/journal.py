"""The journal: one sqlite file per workspace with append-only attempts. It decides which jobs are done.

Only the recorded attempts and plans are authoritative. Outcomes, staleness and "failed too often" are computed from
them on demand; the table of results, a cache of what follows from them, is written in the same transaction.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from sweeps.journal.artifact_table import Artifacts
from sweeps.journal.assignments import Assignments
from sweeps.journal.attempts import Attempts
from sweeps.journal.batch_table import Batches
from sweeps.journal.changes import Changes
from sweeps.journal.file import JournalFile
from sweeps.journal.import_table import Imports
from sweeps.journal.job_table import Jobs
from sweeps.journal.outcomes import Outcomes
from sweeps.journal.plans import Plans
from sweeps.journal.result_updates import ResultUpdates, Sources
from sweeps.journal.results_table import Results
from sweeps.journal.sentinels import Sentinels
from sweeps.journal.sweep_table import Sweeps
from sweeps.journal.times import Times
from sweeps.planning.plan import Plan


class Journal:
    """Open journal. Use it as a context manager, or call `close()`. Only the thread that opened it may use it; other
    threads and processes open the file separately.

    The class only holds the parts, each of which reads and writes some of the tables. Each call of a part that writes
    is one transaction, unless it is inside a `with journal.transaction()` block.
    """

    def __init__(self, file: JournalFile) -> None:
        self.file = file
        self.plans = Plans(file)
        self.sweeps = Sweeps(file, self.plans)
        self.jobs = Jobs(file, self.plans)
        self.sentinels = Sentinels(file)
        self.changes = Changes(file, self.plans, self.jobs, self.sentinels)
        self.artifacts = Artifacts(file)
        self.attempts = Attempts(file, self.sentinels)
        self.batches = Batches(file)
        self.assignments = Assignments(file)
        self.imports = Imports(file)
        self.times = Times(file)
        self.outcomes = Outcomes(self.jobs, self.attempts, self.batches, self.sentinels)
        self.results = Results(file)
        self.updates = ResultUpdates(
            file,
            self.results,
            Sources(
                plans=self.plans,
                jobs=self.jobs,
                changes=self.changes,
                sentinels=self.sentinels,
                artifacts=self.artifacts,
                attempts=self.attempts,
                batches=self.batches,
                times=self.times,
                outcomes=self.outcomes,
            ),
        )
        file.before_commit = self.updates.write
        file.after_rollback = self.sentinels.forget

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False, busy_timeout_s: float = 60.0) -> Self:
        """Open the journal at `path`, and create it if needed. With `read_only`, it must exist.

        Raises `StoreError` if it cannot be used, is missing, or has another version.
        """
        return cls(JournalFile.open(path, read_only=read_only, busy_timeout_s=busy_timeout_s))

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def data_version(self) -> int:
        """A number that changes when another connection has written to the file."""
        return int(self.file.row("PRAGMA data_version")[0])

    @property
    def is_copy(self) -> bool:
        """Tell whether the results are a copy of those of a tracking server, and follow from no attempts."""
        return bool(self.file.row("PRAGMA application_id")[0])

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context manager that makes all writes of its block one transaction, which reaches the disk when the
        block ends.

        Nothing in the block may take long, and no write may be reported before the block has ended: until then, all
        writes are lost if the process is killed.
        """
        return self.file.writing()

    def save_plan(self, plan: Plan) -> None:
        """Make `plan` the sweep's current plan, then reopen the jobs whose elimination from a race is no longer
        valid."""
        self.plans.save(plan)
        self.outcomes.reopen(plan)
