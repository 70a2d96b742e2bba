"""Drives a sweep to its end: devices side by side, rounds, accuracy, drift.

Step: measure
Start: sweep
"""
