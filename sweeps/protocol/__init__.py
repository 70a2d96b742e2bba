"""The measurement protocol: presets, figures of blocks, when a job stops, races, the sentinel.

Step: measure
Start: presets
"""
