"""Builds and measures; commands call the modules outside the folders.

The values and steps of `sweeps` are imported here, never `dashboard`, nor `cli`, `operations` and `api` of `sweeps`.
"""
