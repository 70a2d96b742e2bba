"""The common part of phones and boards: programs, files and facts of a device that is reached through a shell on it.

Start: device
"""
