"""Access to each kind of device: this machine, Android phones over adb, simulated ones. Devices know no runtimes.

Step: measure
Start: interface
"""
