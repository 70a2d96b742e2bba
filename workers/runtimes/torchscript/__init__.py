"""PyTorch Mobile: from a model to a checked file for a phone, stage by stage."""
