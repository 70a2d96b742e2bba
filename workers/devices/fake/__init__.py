"""Simulated phones: real files and answers, simulated time."""
