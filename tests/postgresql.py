"""Debian's PostgreSQL, which a test starts, stops and kills."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.free_port import free_port

USER = "mlflow"
_AS = "postgres"
_START_S = 300


def programs() -> Path | None:
    """The folder of Debian's newest server programs, which are on no path."""
    paths = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return paths[-1].parent if paths else None


PG_CTL = str((programs() or Path("/usr/lib/postgresql")) / "pg_ctl")


class PostgreSql:
    """A server of its own on loopback."""

    def __init__(self, folder: Path) -> None:
        """`folder`: one that is empty, and that any user may get to."""
        self.port = free_port()
        self._folder = folder
        # PostgreSQL refuses to be root's.
        self._as: list[str] = []
        if os.getuid() == 0:
            shutil.chown(folder, _AS)
            self._as = ["setpriv", f"--reuid={_AS}", f"--regid={_AS}", "--clear-groups"]
        self._run("initdb", "-D", folder / "data", "-U", USER, "--auth=trust", "-E", "UTF8", "--no-sync")

    def uri(self, database: str) -> str:
        return f"postgresql+psycopg2://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server, and return once it answers."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
        self._control("start", "-w", "-t", str(_START_S), "-o", options, "-l", str(self._folder / "log"))

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`fast`: in order. `immediate`: as after a crash, without a word to who is connected."""
        self._control("stop", "-w", "-m", mode)

    def create(self, database: str, *, like: str = "template1") -> str:
        """A new database. `like`: another one, to which nothing is connected. Returns its URI."""
        self._run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", USER, "-T", like, database)
        return self.uri(database)

    def _control(self, order: str, *words: str) -> None:
        self._run("pg_ctl", order, "-D", self._folder / "data", *words)

    def _run(self, program: str, *words: object) -> None:
        folder = programs()
        assert folder is not None
        # The output is no pipe: the server would hold a pipe open.
        with (self._folder / "said").open("w+b") as output:
            argv = [*self._as, str(folder / program), *map(str, words)]
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")
            output.seek(0)
            assert done.returncode == 0, output.read().decode(errors="replace")


@contextmanager
def postgresql() -> Iterator[PostgreSql]:
    """A server that runs. Its folder is no test's: the one of all tests is for root only."""
    with tempfile.TemporaryDirectory(prefix="edgesweep-sql-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = PostgreSql(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
