"""Sweep files: reads and validates them, and reports each error with its line.

Step: spec
Start: sweep
"""
