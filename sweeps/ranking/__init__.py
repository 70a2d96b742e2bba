"""Decides which build wins: ranks them by verdicts and ties; comparisons, what to export.

Step: ranking
Start: rank
"""
