"""The dashboard: reads the journal and draws the pages. Does not import `workers`, Ray or adbutils.

Step: dashboard
Start: app
"""
