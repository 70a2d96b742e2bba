"""The measurement protocol: presets, figures of blocks, stopping rules, races, the sentinel.

Step: measure
Start: presets
"""
