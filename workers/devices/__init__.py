"""Access to each kind of device: this machine, phones over adb, boards over ssh, simulated ones. They know no runtimes.

Step: measure
Start: interface
"""
