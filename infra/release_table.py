"""The table of infra/runtimes.md: which release of which library pairs with which torch."""

from sweeps.spec.toolchains import LIBRARIES


def table() -> str:
    rows = [
        f"| `{name}` | {releases} | {mate} | {library.mb} MB |"
        for name, library in LIBRARIES.items()
        for releases, mate in library.pairs.items()
    ]
    return "\n".join(["| library | releases | pairs with | each takes about |", "|---|---|---|---|", *rows, ""])
