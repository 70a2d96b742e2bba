"""Drives a sweep to its end: devices in parallel, rounds, accuracy, drift.

Step: measure
Start: sweep_driver
"""
