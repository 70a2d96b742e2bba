"""Why the rounds of a job ended."""

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
    """Why the rounds of one job ended, with the evidence."""

    job_key: str
    budget: Literal["full", "race"]
    rounds: int
    """Number of its blocks at that time."""
    reason: SettledReason
    """`best`: it cannot be told apart from the best of the decided race. `reopened`: it continues, because the job that
    eliminated it is no longer in the race. `same_program`: it was not timed, because the job `by` is the same program.
    The other names explain themselves."""
    message: str
    """For people."""
    by: str = ""
    """Name of the job that eliminated it, that is measured for it, or that leads a race which batches decided. A name
    may change with the sweep: `by_key` identifies the job."""
    by_key: str = ""
    """Key of the job `by`."""
    ratio: float | None = None
    """Its latency divided by that of the job `by`, paired by rounds."""
    ratio_low: float | None = None
    """Lower bound of `ratio`. Any bound of the race is wrong with probability `error` at most."""
    ratio_high: float | None = field(default=None, metadata=LEFT_OUT_WHEN_EMPTY)
    """Only of a job that was left in a race that batches decided: `ratio_low` and this are then its 95 % interval."""
    error: float | None = None
    device_minutes: float | None = None
    """The limit that was reached, if time ran out."""
    leads: bool = False
    """Whether the race calls it the best; `reason` says whether the race was decided."""
    batches: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Number of batches that came before its rounds, or that eliminated it without any."""
    last_round: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Of an open race, the rounds that it could have had. This job may have fewer, because it rested. Not in early
    journals."""
    confirmations: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Number of blocks that confirm it, which are measured after this."""
    checks: int = field(default=0, metadata=LEFT_OUT_WHEN_EMPTY)
    """Number of blocks of it that check the batches, which are measured after this."""
    batches_decide: bool = field(default=False, metadata=LEFT_OUT_WHEN_EMPTY)
    """Whether batches decided without finals, because the device was shown to allow it when the race began."""
    noise: float | None = field(default=None, metadata=LEFT_OUT_WHEN_EMPTY)
    """Of a job with `checks`: the spread of blocks in processes of their own (standard deviation of logarithms) that
    was known of the device then."""
    question: str = ""
    """`Protocol.question` of the race; otherwise empty."""

    @property
    def eliminated(self) -> bool:
        """Whether it left the race because of another job."""
        return self.reason in ("slower", "constraint", "same_program")

    def text_after(self, blocks: int) -> str:
        """The message for people; `blocks`: the job's number of blocks now."""
        past = f" (as decided after {self.rounds} rounds)" if blocks != self.rounds and not self.eliminated else ""
        return self.message + past

    def reopened(self) -> "Settled":
        """The record of a job that races again, because the job that eliminated it is no longer in the race."""
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
