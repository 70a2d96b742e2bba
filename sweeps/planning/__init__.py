"""Plans: from a sweep file to its jobs and skipped combinations.

Step: planning
Start: plan
"""
