"""How a time is taken: presets, what blocks come to, when a job stops, races, the sentinel.

Step: measure
"""
