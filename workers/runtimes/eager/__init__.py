"""PyTorch in Python, only as a baseline, never shipped."""
