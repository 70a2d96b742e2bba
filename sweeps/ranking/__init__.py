"""The ranking decides which build wins: verdicts, ties, comparisons, export.

Step: ranking
Start: rank
"""
