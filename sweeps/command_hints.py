"""The commands in advice. They are written as for the usual workspace, and completed where they are shown. Pure."""

import re
from dataclasses import dataclass

RUN = "edgesweep run SWEEP.yaml"
_VERBS = "run|demo|plan|status|rank|compare|export|check|report|profile|noise|import|sweeps"
_GROUPS = "journal|store"
"""The subcommands of these commands take `--workspace`, and the commands themselves do not."""
_COMMAND = re.compile(
    rf"{re.escape(RUN)}|\bedgesweep (?:(?:{_GROUPS}) [a-z-]+|(?:{_VERBS}))\b"
    r"(?!(?:(?!\bedgesweep )[^;,\n])* --workspace )"
)


@dataclass(frozen=True, slots=True)
class Here:
    """The hints that only the place where advice is shown knows."""

    run: str = RUN
    """The command that measures the sweep, with its file and workspace as far as they are known."""
    workspace: str = ""
    """The text, between spaces, with which a command finds the workspace: ` --workspace DIR`; empty for the usual
    one."""

    def typed(self, text: str) -> str:
        """Return `text` with its commands as they can be typed at this place."""
        return _COMMAND.sub(lambda match: self.run if match[0] == RUN else match[0] + self.workspace, text)


ANYWHERE = Here()
