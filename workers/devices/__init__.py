"""How each kind of device is reached: this machine, Android phones over adb, simulated ones. A device knows no runtime.

Step: measure
Start: interface
"""
