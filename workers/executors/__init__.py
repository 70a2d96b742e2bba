"""Where builds and measurements run: in this process or on Ray.

Step: measure
Start: interface
"""
