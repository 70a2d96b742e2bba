"""Plans: the axes of a grid, and every job or skipped combination that a sweep file comes to.

Step: planning
"""
