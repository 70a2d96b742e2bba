"""All processes of one program are found and ended, also where no cgroup can be made."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import os, sys, time
from workers.forks import group

if sys.argv[1] == "without a cgroup":
    group._new_cgroup = lambda: None
group.adopt_orphans()
one = group.Group()
child = os.fork()
if child == 0:
    one.join()
    # Ten that leave their session, each in the care of a parent that ends at once.
    for _ in range(10):
        if os.fork() == 0:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(1000)
        os.wait()
    time.sleep(1000)
one.led_by(child)
while len(one.pids()) < 11:
    time.sleep(0.01)
    one.reap_orphans()
def session(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:  # it has ended meanwhile
        return None
while any(session(pid) == child for pid in one.pids() - {child}):
    time.sleep(0.01)
    one.reap_orphans()
pids = one.pids()
print(*pids, flush=True)
assert one.private_bytes(0) > 0
one.end()
assert one.pids() == set()
"""


@pytest.mark.parametrize("way", ["as it is here", "without a cgroup"])
def test_processes_that_left_their_session_and_their_parents_are_found_and_ended(way: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, way], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 11
    assert not any(psutil.pid_exists(pid) for pid in pids)


BOMB = """
import os, time
from workers.forks import group

group.adopt_orphans()
one = group.Group(most=50)
child = os.fork()
if child == 0:
    one.join()
    for _ in range(7):  # 128 of them
        try:
            os.fork()
        except OSError:
            pass
    time.sleep(1000)
one.led_by(child)
time.sleep(0.5)
print(len(one.pids()), one._limited is not None)
one.end()
assert one.pids() == set()
assert not any(folder.exists() for folder in one._folders())
"""


def test_the_kernel_lets_a_program_have_no_more_tasks_than_its_limit_where_it_can() -> None:
    done = subprocess.run([sys.executable, "-c", BOMB], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    count, limited = done.stdout.split()
    assert int(count) <= (50 if limited == "True" else 128)
