"""The Python runner: a program that loads one artifact, and times or evaluates it. Run with `python -m`; see `main`."""
