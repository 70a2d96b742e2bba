"""The report of a sweep: one file to send, that opens without a network.

Start: sections
"""
