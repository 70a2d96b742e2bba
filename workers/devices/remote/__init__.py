"""What phones and boards share: programs, files and facts of a device that is reached through a shell on it.

Start: device
"""
