"""Simulated phones: real files and evaluations, simulated time."""
