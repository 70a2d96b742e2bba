"""A plan has the jobs and the skipped combinations of a sweep file.

Step: planning
Start: plan
"""
