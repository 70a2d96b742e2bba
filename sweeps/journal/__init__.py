"""The journal: one sqlite file that keeps every attempt and decides what is done.

Step: journal
Start: journal
"""
