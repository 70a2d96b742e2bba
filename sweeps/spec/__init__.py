"""Sweep files: reads them, checks them, and says what is wrong where.

Step: spec
Start: sweep
"""
