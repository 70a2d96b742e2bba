"""The end of the rounds of a job."""

from dataclasses import dataclass, field, replace
from typing import Literal

from sweeps.records import LEFT_OUT_WHEN_EMPTY

SettledReason = Literal[
    "stable",
    "unstable",
    "slower",
    "constraint",
    "same_program",
    "disqualified",
    "best",
    "undecided",
    "out_of_time",
    "reopened",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The end of the rounds of one job, with its reason and the evidence."""

    job_key: str
    budget: Literal["full", "race"]
    rounds: int
    """The number of the job's blocks when its rounds ended."""
    reason: SettledReason
    """`best`: the job cannot be told apart from the best of the decided race. `reopened`: the job continues, because
    the job that eliminated it is no longer in the race. `same_program`: the job was not timed, because the job `by` is
    the same program. The other names explain themselves."""
    message: str
    """The message for people."""
    by: str = ""
    """The name of the job that eliminated this job, that is measured instead of it, or that leads a race which batches
    decided. A name may change with the sweep: `by_key` identifies the job."""
    by_key: str = ""
    """The key of the job `by`."""
    ratio: float | None = None
    """The latency of this job divided by that of the job `by`, paired by rounds."""
    ratio_low: float | None = None
    """The lower bound of `ratio`. The probability that any of the race's bounds is wrong is at most `error`."""
    ratio_high: float | None = field(default=None, metadata=LEFT_OUT_WHEN_EMPTY)
    """The upper bound, only of a job that was left in a race that batches decided: `ratio_low` and `ratio_high` are
    then the 95 % interval of `ratio`."""
    error: float | None = None
    device_minutes: float | None = None
    """The limit that was reached, if time ran out."""
    leads: bool = False
    """Whether the race considers this job the best; `reason` says whether the race was decided."""
    batches: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The number of batches before the job's rounds; for a job eliminated without rounds, before its elimination."""
    last_round: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The largest number of rounds that the job could have had, if the race was not decided. The job may have fewer,
    because it rested. Early journals do not have the number."""
    confirmations: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The number of blocks that are to confirm the job after the end of its rounds."""
    checks: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """The number of the job's blocks that are to check the batches after the end of its rounds."""
    batches_decide: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Whether batches decided without finals, because the device was shown to allow it when the race began."""
    noise: float | None = field(default=None, metadata=LEFT_OUT_WHEN_EMPTY)
    """The known spread of the device's blocks in separate processes (standard deviation of logarithms) at that time,
    for a job with `checks`."""
    question: str = ""
    """The `Protocol.question` of the race; otherwise empty."""

    @property
    def eliminated(self) -> bool:
        """Tell whether the job left the race because of another job."""
        return self.reason in ("slower", "constraint", "same_program")

    def text_after(self, blocks: int) -> str:
        """Return the message for people; `blocks`: the current number of the job's blocks."""
        past = f" (as decided after {self.rounds} rounds)" if blocks != self.rounds and not self.eliminated else ""
        return self.message + past

    def reopened(self) -> "Settled":
        """Return the record of a job that is in the race again, because the job that eliminated it is no longer in the
        race."""
        return replace(
            self,
            reason="reopened",
            message=f"back in the race: {self.by}, which was ahead of it, is no longer in the race",
            by="",
            by_key="",
            ratio=None,
            ratio_low=None,
            ratio_high=None,
            error=None,
            confirmations=0,
            checks=0,
            noise=None,
        )
