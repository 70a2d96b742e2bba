"""One module for each question that the dashboard answers."""
