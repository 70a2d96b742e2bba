"""Reads the output of the runtimes' own benchmark tools: what they print, and logs that people took by hand. Pure.

Logs come from outside: a log that is incomplete or contradicts itself is rejected.

Step: measure
Start: tools
"""
