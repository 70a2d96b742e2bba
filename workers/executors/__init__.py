"""Runs builds and measurements: on this machine or on Ray.

Step: measure
Start: interface
"""
