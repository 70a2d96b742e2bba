"""PyTorch in Python, to compare with and never to ship."""
