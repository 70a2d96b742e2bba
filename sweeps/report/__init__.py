"""What people and programs read: tables, progress and JSON documents.

Step: report
"""
