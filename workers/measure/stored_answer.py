"""The request for an answer that was lost on its way to the driver: nothing is measured for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from sweeps.errors import DeviceError
from sweeps.records import Job, Stage
from workers.measure.device_runner import AnswerT, DeviceRunner, Request


@dataclass(frozen=True, slots=True)
class StoredAnswerRequest(Request[AnswerT]):
    """The request to a host of a lab for the stored answer to the request `of`, whoever uses the device by now.

    The answer is a `Failed` of the kind `not_kept` if the host has stored none. No other executor stores answers.
    """

    of: Request[AnswerT]
    stage: ClassVar[Stage] = "run"

    @property
    def jobs(self) -> tuple[Job, ...]:
        return ()

    def answer(self, device_runner: DeviceRunner) -> AnswerT:
        raise not_stored(self.job)

    def answer_without_device(self, name: str, let_go: Callable[[], object]) -> AnswerT | None:
        raise not_stored(self.job)


def not_stored(job: Job) -> DeviceError:
    return DeviceError("not_kept", f"no answer about {job.name} was kept")
