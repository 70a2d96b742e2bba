"""One sweep on three device hosts that loses a host, gets one back, and sees phones move: is every job accounted for?

    python tests/benchmarks/bench_lab_sweep.py [--log FOLDER]

Three hosts with two virtual phones each, an MLflow server on PostgreSQL, and a driver, each on a computer of its own:
namespaces of this machine (tests/computers.py), so it needs root. While the sweep measures, one host is killed and the
network of another one is cut for 60 s; then a phone moves from host to host. Of the killed host's phones one is plugged
into another host at once, the other one comes back with its host, for a second run of the same command. About eight
minutes. Times are those of a machine with two cores and six phones; `bench_lab.py` has the lab's own.
Needs Debian's PostgreSQL, and psycopg2-binary from PyPI.
"""

import argparse
import importlib.util
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_case import DRIVER, HOSTS, PHONES, Lab, network, say
from report import Figure, at_least, at_most, finish

from tests import postgresql
from tests.computers import Computer, Network, missing
from tests.conftest import OWN_NET

SERVER = "server"
STORE_PORT, SQL_PORT = 5000, 5432
CUT, CUT_S = "lab-3", 60.0
KILLED = "lab-2"
MOVED = f"{CUT}-phone-1"
SAVED, LEFT = (f"{KILLED}-phone-{number}" for number in (1, 2))
BUILDS = 4
JOBS = BUILDS * PHONES * len(HOSTS)
AWAY_S = 400.0
"""Longer than a driver waits for phones that nobody brings back."""
SWEEP = """
name: lab
models:
  - {source: "my_net:make_net", arguments: {classes: 4}, weights: random, input_shape: [1, 3, 16, 16], name: tiny}
data:
  calibration: {source: synthetic, images: 8, seed: 1}
  evaluation: {source: synthetic, images: 8, seed: 2}
grids:
  - {precision: [fp32], layout: [nchw, nhwc], fuse: [true, false]}
devices: ["adb:*"]
protocol: {preset: quick, gate: none, rounds: 30, warmup_seconds: 0.2, min_seconds: 1, iterations: 5}
"""
BLOCKS = """
SELECT json_extract(jobs.record, '$.device_id') FROM attempts JOIN jobs ON attempts.key = jobs.job_key
WHERE attempts.kind = 'block'
"""
_EDGESWEEP = Path(sys.executable).with_name("edgesweep")


def lacking() -> str:
    """Say why this cannot run here, with the next step; empty if it can."""
    if why := missing():
        return why
    if not postgresql.programs():
        return "PostgreSQL is missing: apt-get install -y postgresql"
    if importlib.util.find_spec("psycopg2") is None:
        return "its driver is missing: pip install psycopg2-binary"
    return ""


@dataclass(slots=True)
class Tracking:
    """MLflow on PostgreSQL, as infra/server/compose.yaml has it, on a computer of its own."""

    computer: Computer
    address: str

    @property
    def uri(self) -> str:
        return f"http://{self.address}:{STORE_PORT}"

    def start(self, wait: Callable[[Callable[[], bool]], None]) -> None:
        programs, data = postgresql.programs(), self.computer.folder / "sql"
        assert programs is not None
        data.mkdir()
        shutil.chown(data, "postgres")
        self.computer.folder.chmod(0o755)
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._run(
            *as_postgres, programs / "initdb", "-D", "/tmp/sql/data", "-U", "mlflow", "--auth=trust", "-E", "UTF8"
        )
        options = f"-p {SQL_PORT} -k /tmp/sql -c listen_addresses=127.0.0.1"
        self._run(
            *as_postgres, programs / "pg_ctl", "-D", "/tmp/sql/data", "-o", options, "-l", "/tmp/sql/log", "-w", "start"
        )
        self._run(programs / "createdb", "-h", "127.0.0.1", "-p", SQL_PORT, "-U", "mlflow", "mlflow")
        words = ["-m", "mlflow", "server", "--host", self.address, "--port", str(STORE_PORT), "--workers", "1"]
        words += ["--backend-store-uri", f"postgresql+psycopg2://mlflow@127.0.0.1:{SQL_PORT}/mlflow"]
        words += ["--artifacts-destination", "/tmp/artifacts", "--allowed-hosts", f"{self.address}:{STORE_PORT}"]
        without = {"MLFLOW_DISABLE_TELEMETRY": "1", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        self.computer.start([sys.executable, *words], self.computer.folder / "mlflow.log", **without)
        wait(self._answers)

    def refused(self) -> int:
        """Count the requests that the server could not answer."""
        return (self.computer.folder / "mlflow.log").read_text(errors="replace").count('" 500 ')

    def _answers(self) -> bool:
        request = f"import urllib.request; urllib.request.urlopen('{self.uri}/health', timeout=5)"
        with self.computer.start([sys.executable, "-c", request], self.computer.folder / "asked.log") as process:
            return process.wait() == 0

    def _run(self, *words: object) -> None:
        done = self.computer.run([str(word) for word in words])
        if done.returncode != 0:
            sys.exit(f"{words[-1]} failed: {done.stdout}")


@dataclass(slots=True)
class Sweep:
    """The driver's computer: the sweep, and what its journal says, read while it is written."""

    lab: Lab
    tracking: Tracking
    log: Path

    @property
    def computer(self) -> Computer:
        return self.lab.network.computers[DRIVER]

    def start(self) -> "subprocess.Popen[str]":
        home = self.computer.folder / "home"
        (home / "sweep.yaml").write_text(SWEEP)
        (home / "my_net.py").write_text(OWN_NET)
        words = [str(_EDGESWEEP), "run", "sweep.yaml", "--workspace", "results"]
        words += ["--lab", self.lab.head, "--token-file", "lab-token"]
        return self.computer.start(words, self.log, MLFLOW_TRACKING_URI=self.tracking.uri)

    def json_of(self, *words: str) -> Any:
        """A command's JSON document."""
        argv = [str(_EDGESWEEP), *words, "--workspace", "results", "--json"]
        with self.computer.start(argv, MLFLOW_TRACKING_URI=self.tracking.uri) as process:
            out, _ = process.communicate(timeout=300)
        return json.loads(out)

    def blocks(self) -> Counter[str]:
        """Count the blocks that each phone has measured, by its serial number."""
        file = self.computer.folder / "home" / "results" / "journal.sqlite"
        if not file.exists():
            return Counter()
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=30.0)) as journal:
            try:
                return Counter(device_id for (device_id,) in journal.execute(BLOCKS))
            except sqlite3.OperationalError:  # the journal has no tables yet
                return Counter()

    def goes_on(self, phones: tuple[str, ...]) -> float:
        """Seconds until each of these has measured another block."""
        began, before = time.monotonic(), self.blocks()
        self.lab.wait(lambda: all(self.blocks()[phone] > before[phone] for phone in phones))
        return time.monotonic() - began


def faults(lab: Lab, sweep: Sweep) -> list[Figure]:
    """All of them, while the sweep measures; returns when there is nothing more that could be measured."""
    run = sweep.start()
    lab.wait(lambda: len(sweep.blocks()) == PHONES * len(HOSTS) or run.poll() is not None)
    if run.poll() is not None:
        sys.exit(f"the sweep has ended: {sweep.log.read_text()}")
    say(f"all phones measure: {dict(sweep.blocks())}")
    before = sweep.blocks()
    lab.network.computers[KILLED].kill()
    lab.network.cut(CUT)
    began = time.monotonic()
    lab.plug(HOSTS[0], SAVED)
    saved_s = sweep.goes_on((SAVED,))
    say(f"{KILLED} is killed, {CUT} is cut; {SAVED} measures on {HOSTS[0]} after {saved_s:.1f} s")
    time.sleep(max(0.0, began + CUT_S - time.monotonic()))
    lab.network.mend(CUT)
    on_s = sweep.goes_on(tuple(f"{CUT}-phone-{number + 1}" for number in range(PHONES)))
    say(f"after {CUT_S:g} s the link is back; both phones measure again after {on_s:.1f} s")
    lab.unplug(MOVED)
    lab.plug(HOSTS[0], MOVED)
    moved_s = sweep.goes_on((MOVED,))
    say(f"{MOVED} measures on {HOSTS[0]} after {moved_s:.1f} s")
    if run.wait(AWAY_S + 600) != 0:
        sys.exit(f"the sweep has failed: {sweep.log.read_text()}")
    status = sweep.json_of("status")
    left = sweep.blocks()[LEFT] - before[LEFT]
    say(f"the first run ends: {status['measured']} measured, {status['pending']} wait, {status['failed']} failed")
    return [
        Figure(f"after a cut of {CUT_S:g} s: until both phones have measured a block more", on_s, "s"),
        Figure("a phone measures on another host, after it was plugged in", moved_s, "s"),
        Figure("a phone of a killed host measures on another one, after it was plugged in", saved_s, "s"),
        at_most(f"blocks of {LEFT} after its host was killed", left, "blocks", 1),
        at_least("first run: jobs measured", status["measured"], f"of {JOBS}", JOBS - BUILDS),
        at_most("first run: jobs failed", status["failed"], "jobs", 0),
        at_least("first run: jobs accounted for", status["measured"] + status["pending"], f"of {JOBS}", JOBS),
    ]


def brought_back(lab: Lab, sweep: Sweep) -> list[Figure]:
    """The killed host comes back with the phone that nobody moved, and the same command is run again."""
    lab.network.add(KILLED)
    lab.plug(KILLED, LEFT)
    lab.join(KILLED)
    if sweep.start().wait(600) != 0:
        sys.exit(f"the second run has failed: {sweep.log.read_text()}")
    status, verified = sweep.json_of("status"), sweep.json_of("journal", "verify", "--store")
    for finding in verified["findings"]:
        say(f"{finding['where']}: {finding['message']}")
    return [
        at_least("second run: jobs measured", status["measured"], f"of {JOBS}", JOBS),
        at_most("findings of journal verify --store", len(verified["findings"]), "", 0),
        at_most("requests that MLflow could not answer", sweep.tracking.refused(), "", 0),
    ]


def bench(computers: Network, log: Path) -> list[Figure]:
    lab = Lab(computers)
    lab.start()
    say("three hosts have joined")
    tracking = Tracking(computers.add(SERVER), computers.address(SERVER))
    tracking.start(lab.wait)
    say("MLflow answers")
    sweep = Sweep(lab, tracking, log / "sweep.log")
    try:
        return faults(lab, sweep) + brought_back(lab, sweep)
    finally:
        shutil.copy(tracking.computer.folder / "mlflow.log", log)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, help="a folder for what the sweep and MLflow say")
    options = parser.parse_args()
    if why := lacking():
        sys.exit(f"bench_lab_sweep: {why}")
    # Without it the computers would end all the same, but their files would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_lab_sweep: ended"))
    with tempfile.TemporaryDirectory(prefix="edgesweep-bench-") as name, network(Path(name) / "net") as computers:
        log = (options.log or Path(name)).resolve()
        log.mkdir(parents=True, exist_ok=True)
        figures = bench(computers, log)
    finish("lab sweep: a cut, a killed host, phones that move", figures, hosts=len(HOSTS), jobs=JOBS)


if __name__ == "__main__":
    main()
