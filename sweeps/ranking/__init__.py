"""Decides which build wins: verdicts, ties, ranks, comparisons, what to export.

Step: ranking
"""
