"""What commands and Python programs do with a sweep: plan it, run it, read its results. Knows no command line.

Step: command
"""
