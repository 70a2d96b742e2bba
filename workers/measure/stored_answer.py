"""The request for an answer that was lost on its way: nothing is measured for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from sweeps.errors import DeviceError
from sweeps.records import Job, Stage
from workers.measure.bench import AnswerT, Bench, Request


@dataclass(frozen=True, slots=True)
class KeptRequest(Request[AnswerT]):
    """What a host of a lab still keeps of the answer to `of`, whoever has the device by now.

    A `Failed` of the kind `not_kept` if it keeps nothing. No other executor keeps anything.
    """

    of: Request[AnswerT]
    stage: ClassVar[Stage] = "run"

    @property
    def jobs(self) -> tuple[Job, ...]:
        return ()

    def answer(self, bench: Bench) -> AnswerT:
        raise not_kept(self.job)

    def answer_apart(self, name: str, let_go: Callable[[], object]) -> AnswerT | None:
        raise not_kept(self.job)


def not_kept(job: Job) -> DeviceError:
    return DeviceError("not_kept", f"no answer about {job.name} was kept")
