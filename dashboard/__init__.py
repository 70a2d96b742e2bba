"""The dashboard: reads the store and draws the page. Does not import `workers`, Ray or adbutils.

Step: dashboard
Start: app
"""
