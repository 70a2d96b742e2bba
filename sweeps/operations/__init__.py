"""The operations of commands and Python programs on a sweep: plan it, run it, read its results. They know no command
line.

Step: command
"""
