"""Output for people and programs: tables, progress and JSON documents.

Step: report
"""
