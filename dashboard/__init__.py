"""Shows: reads the store and draws the page. Never imports `workers`, Ray or adbutils.

Step: dashboard
Start: app
"""
