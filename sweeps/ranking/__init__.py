"""The ranking decides which build wins: verdicts, ties, comparisons, and the export of a build.

Step: ranking
Start: rank
"""
