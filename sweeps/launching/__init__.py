"""Sweeps as processes of their own, which are started, stopped and found again, and tell what they do now.

Step: launch
Start: start
"""
