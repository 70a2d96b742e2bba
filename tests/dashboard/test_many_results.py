"""Pages of 100,000 results."""

RESULTS = 100_000
