"""The journal: every attempt is kept at once in one sqlite file, which decides what is done.

Step: journal
"""
