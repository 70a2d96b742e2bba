"""Simulated phones whose builds have latencies that a test knows: no two are equally fast by chance."""

from pathlib import Path

import pytest

from tests.faulty_device import Faults, FaultyDevice
from tests.gallery import RememberingHost
from tests.transports import stand_in


class Latencies(dict[str, float]):
    """Latencies (ms) of files in the order in which they are first run, each `step` times as slow as the one before.

    TorchScript writes into a file where the model's source lay, so that what a simulated phone draws by a file's bytes
    is another figure each time.
    """

    def __init__(self, step: float) -> None:
        super().__init__()
        self.step = step

    def get(self, digest: str, _: object = None) -> float:
        return self.setdefault(digest, 10.0 * self.step ** len(self))


class KnownPhone(FaultyDevice):
    """A phone with these latencies, on which nothing is evaluated twice."""

    latencies = Latencies(1.0)

    def __init__(self, folder: Path, name: str, faults: Faults | None = None) -> None:
        super().__init__(folder, name, true_ms=self.latencies, faults=faults)
        self._host = RememberingHost(folder / f"fake-{name}")


def know_latencies(patch: pytest.MonkeyPatch, step: float) -> None:
    """Have simulated phones be of this kind, with no file run yet."""
    patch.setattr(KnownPhone, "latencies", Latencies(step))
    stand_in(patch, "fake", f"{__name__}:{KnownPhone.__name__}")
