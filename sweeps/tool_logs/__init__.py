"""Readers for the output of the runtimes' own benchmark tools: what they print, and logs that people took by hand. They
are pure.

Logs come from outside: a log that is incomplete or contradicts itself is rejected.

Step: measure
Start: tools
"""
