"""The runner's output: one JSON object per line, parsed by `runner_report`. Standard library only."""

import json
from typing import IO


class GiveUp(Exception):  # noqa: N818  # becomes the last line of the report
    """The error that ends the run with an `error` line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


def tell(report: IO[str], event: str, **content: object) -> None:
    report.write(json.dumps({"event": event, **content}) + "\n")
    report.flush()
