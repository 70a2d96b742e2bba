"""Takes one block: waits for the device, starts the runner, reads what it reports.

Step: measure
"""
