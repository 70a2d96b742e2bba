"""The command line: one module for each command.

Step: command
Start: main
"""
