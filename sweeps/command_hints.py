"""The commands in advice. They are written as for the default workspace, and completed when they are shown. Pure."""

import re
from dataclasses import dataclass

RUN = "edgesweep run SWEEP.yaml"
_VERBS = "run|demo|plan|status|rank|compare|export|check|report|profile|noise|import|sweeps"
_GROUPS = "journal|store"
"""Only the subcommands of these commands take `--workspace`, not the commands themselves."""
_COMMAND = re.compile(
    rf"{re.escape(RUN)}|\bedgesweep (?:(?:{_GROUPS}) [a-z-]+|(?:{_VERBS}))\b"
    r"(?!(?:(?!\bedgesweep )[^;,\n])* --workspace )"
)


@dataclass(frozen=True, slots=True)
class CommandHints:
    """How commands in advice are completed; only the code that shows the advice knows it."""

    run: str = RUN
    """The command that measures the sweep, with its file and workspace if they are known."""
    workspace: str = ""
    """The option that selects the workspace, to insert into a command: ` --workspace DIR`; empty for the default
    workspace."""

    def typed(self, text: str) -> str:
        """Return `text` with its commands completed, so that they can be typed as shown."""
        return _COMMAND.sub(lambda match: self.run if match[0] == RUN else match[0] + self.workspace, text)


ANYWHERE = CommandHints()
