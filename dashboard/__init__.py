"""Shows: reads the store and draws it. Never imports `workers`, Ray or adbutils.

Step: dashboard
"""
