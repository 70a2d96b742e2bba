"""Sweeps as processes of their own: starts and stops them, finds them again, and tells what they do now.

Step: launch
Start: start
"""
