"""Commands in advice. They are written as for the usual workspace, and completed where they are shown. Pure."""

import re
from dataclasses import dataclass

RUN = "edgesweep run SWEEP.yaml"
_VERBS = "run|demo|plan|status|rank|compare|export|check|report|profile|noise|import|sweeps"
_GROUPS = "journal|store"
"""Their subcommands take `--workspace`, and they do not."""
_COMMAND = re.compile(
    rf"{re.escape(RUN)}|\bedgesweep (?:(?:{_GROUPS}) [a-z-]+|(?:{_VERBS}))\b"
    r"(?!(?:(?!\bedgesweep )[^;,\n])* --workspace )"
)


@dataclass(frozen=True, slots=True)
class Here:
    """What only the place where advice is shown knows."""

    run: str = RUN
    """What measures the sweep, with its file and workspace as far as they are known."""
    workspace: str = ""
    """Between spaces what a command needs to find the workspace: ` --workspace DIR`; empty for the usual one."""

    def typed(self, text: str) -> str:
        """`text` with its commands as they can be typed here."""
        return _COMMAND.sub(lambda found: self.run if found[0] == RUN else found[0] + self.workspace, text)


ANYWHERE = Here()
