"""Builds and measures; the modules beside the folders are what commands ask for.

Imports `sweeps`, never `dashboard`.
"""
