"""A program that runs its arguments as a new process in a new session, prints the id of the new process, and ends.

The parent of the new process is init, so its starter may end and need not wait for it. The new process inherits
standard error and the passed file descriptors. Standard library only: run it with `python -I -S`.
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
    # A program that was started in the background may ignore these signals, and child processes inherit that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(2, 1)
    os.execv(argv[0], argv)  # noqa: S606  # an argument list


if __name__ == "__main__":
    main(sys.argv[1:])
