"""Builds and measures; commands call the modules outside the folders.

Imports `sweeps`, never `dashboard`.
"""
