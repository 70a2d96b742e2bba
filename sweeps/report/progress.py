"""The progress bars of a run."""

from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sweeps.report.terminal_tables import open_console
from sweeps.text import plain


class RunProgress:
    """Progress bars of a run on stderr: the current work, its progress, the remaining time."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = open_console(stderr=True, quiet=quiet)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            TextColumn("elapsed,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.fields[running]}", style="dim"),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._tenths: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not self._console.is_terminal:
            for title in self._tasks:
                self.end(title)  # Otherwise rich would draw the last bars into the log.
        self._progress.stop()

    def preparing(self, subject: str, share: float | None) -> None:
        """Show the preparation of `subject`. `share`: from 0 to 1; `None` if unknown."""
        done, total = (0, None) if share is None else (round(100 * share), 100)
        self.step(f"Preparing {subject}", done, total, "", unit="%")

    def step(
        self,
        title: str,
        done: int,
        total: int | None,
        running: str,
        *,
        unit: str = "steps",
        beside: tuple[str, ...] = (),
    ) -> None:
        """Show one bar per title. A new bar ends the earlier bars, except those whose title starts with one of
        `beside`. `total`: `None` if unknown. `unit`: the unit of `done` and `total`; for `%` the total is 100."""
        amount = f"{done} %" if unit == "%" else f"{done} of {total} {unit}"
        if title not in self._tasks:
            for earlier in self._tasks:
                if not earlier.startswith(beside):
                    self.end(earlier)
            self._tasks[title] = self._progress.add_task(plain(title), total=total, running="", amount="")
            if not self._console.is_terminal:
                self.note(f"{title} ...")
        elif not self._console.is_terminal and total and 10 * done // total > self._tenths[title]:
            # Without a terminal there is no bar: one line per 10 % shows the progress.
            self.note(f"{title}: {amount}")
        # A total that grows, as in a race, must not repeat lines.
        self._tenths[title] = max(self._tenths.get(title, 0), 10 * done // total if total else 0)
        shown = amount if total else ""
        self._progress.update(self._tasks[title], completed=done, total=total, running=plain(running), amount=shown)

    def end(self, title: str) -> None:
        """Remove the bar of `title`, if there is one, because its work has ended."""
        if title in self._tasks:
            self._progress.update(self._tasks[title], total=100, completed=100, visible=False)

    def note(self, message: str) -> None:
        self._progress.console.print(Text(plain(message)))
