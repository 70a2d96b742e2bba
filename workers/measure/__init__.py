"""Times one block: waits for the device, starts the runner on it, reads the times that it reports.

Step: measure
Start: timed_block
"""
