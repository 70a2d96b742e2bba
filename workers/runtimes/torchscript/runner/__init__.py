"""The Python runner: a process that loads one artifact, and times or evaluates it. `python -m` it; see `main`."""
