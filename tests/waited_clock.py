"""A clock for what waits: time passes only where it is waited for."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds
