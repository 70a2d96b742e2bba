"""Makes errors of libraries readable: in one line, with the operator, and with the line of the user's files."""

import re
import traceback
from collections.abc import Collection

from sweeps.errors import BuildError

_LIMIT = 300
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_OPERATOR = re.compile(
    r"While executing %\w+ : .*?\[target=(?:torch\.ops\.)?([\w.]+)\]|Could not run '(\w+::\w+)'|"
    r"Unknown builtin op: (\w+::\w+)"
)
"""torch's messages about the operator at which it failed."""


def first_words(error: BaseException | str) -> str:
    """Return the first line that is not empty, at most 300 characters: torch's messages contain pages of source
    code."""
    lines = (line.strip().rstrip(":") for line in str(error).splitlines())
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= _LIMIT else text[: _LIMIT - 1] + "…"


def chain_of(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, of which the last one is the origin."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None:
        causes.append(cause)
        cause = cause.__cause__
    return causes


def located(error: BuildError, files: Collection[str]) -> BuildError:
    """Return the error with the operator and the line of the user's code that its causes name. `files`: the user's own
    files, by relative path. The message stays; a line of other files is removed."""
    causes = chain_of(error)
    # TorchScript names first the line itself, and then its callers.
    messages = "\n".join(str(cause).partition("is being compiled since")[0] for cause in causes)
    operator = error.operator
    if not operator and (named := _OPERATOR.search(messages)):
        operator = next(filter(None, named.groups()))
    if error.file:
        file, line = place_in(f'File "{error.file}", line {error.line}', files) or ("", 0)
    else:
        frames = "".join(line for cause in causes for line in traceback.format_tb(cause.__traceback__))
        file, line = place_in(messages, files) or place_in(frames, files) or ("", 0)
    if (operator, file, line) == (error.operator, error.file, error.line):
        return error
    located_error = BuildError(error.kind, error.message, error.next_step, operator=operator, file=file, line=line)
    return located_error.with_traceback(error.__traceback__)


def place_in(text: str, files: Collection[str]) -> tuple[str, int] | None:
    """Return the innermost line of the user's files that a traceback names; `None` if it names none of them."""
    for path, line in reversed(_FRAME.findall(text)):
        for name in files:
            if path == name or path.endswith(f"/{name}"):
                return name, int(line)
    return None
