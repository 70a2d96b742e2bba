"""Device hosts of a lab: computers with phones that join by themselves, lend their devices and keep results.

Step: measure
Start: interface
"""
