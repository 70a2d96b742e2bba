"""A program that starts its arguments as a process of its own session, prints that process's id, and ends.

The new process belongs to init, so whoever asked for it may end, and need not wait for it. It keeps the standard error
and the files that were handed over. Standard library only: run it with `python -I -S`.
"""

import os
import signal
import sys


def main(argv: list[str]) -> None:
    os.setsid()
    child = os.fork()
    if child:
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        os._exit(0)
    # A program that was started in the background may ignore these signals, and would hand that on.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(2, 1)
    os.execv(argv[0], argv)  # noqa: S606  # an argument list


if __name__ == "__main__":
    main(sys.argv[1:])
