"""The documentation pages for users, to which messages point, and the pinned versions: from a checkout, or from the
wheel."""

from pathlib import Path

_FOLDERS = (Path(__file__).parent / "carried", Path(__file__).parents[1] / "infra")
"""The folders of the pages in a wheel, and in a checkout."""

PAGES = {
    "android-runtime": "compile the runner for a phone's ABI",
    "boards": "measure on a Linux board over ssh",
    "dashboard": "the pages in the browser, and who may do what there",
    "installation": "install it from a wheel, outside a checkout",
    "lab": "several computers with phones as one lab",
    "nnapi-and-metal": "builds for accelerators, checked without a phone",
    "phones": "connect a phone, prepare it, and what can go wrong",
    "protocol": "how it measures and decides: the rules",
    "protocol-evidence": "how often the rules are right: what was simulated and measured",
    "protocol-model": "the models, thresholds and papers behind the rules",
    "python": "the functions behind the commands, for programs and notebooks",
    "racing": "races: fewer device seconds for the same winner",
    "runtimes": "ExecuTorch and ONNX Runtime beside PyTorch Mobile",
    "server": "MLflow, its database and the dashboard on a server",
    "support": "which models build with which combinations",
}
"""The subject of each page, by name."""


def page(name: str) -> str | None:
    """Return the Markdown text of a page; `None` if there is no such page."""
    return _text(f"{name}.md") if name in PAGES else None


def constraints() -> str:
    """Return the versions with which EdgeSweep is tested, one `NAME==VERSION` per line."""
    return _text("constraints.txt")


def _text(name: str) -> str:
    return next(path for folder in _FOLDERS if (path := folder / name).is_file()).read_text("utf-8")
