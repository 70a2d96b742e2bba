"""Decides who wins: verdicts, ties, ranks, comparisons, what to export.

Step: ranking
"""
