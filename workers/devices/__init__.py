"""What measures: this machine, Android phones over adb, simulated phones. A device knows no runtime.

Step: measure
"""
