"""Models for Android's NNAPI: converts them, reads them, asks which accelerators take them.

rewrite      a graph that NNAPI can take, with the same answers
lower        the rewritten model as one NNAPI model inside a TorchScript module
serializer   PyTorch's serializer, with the converters of `operators`: windows, elements, reductions, shapes, views
coverage     how much of a model NNAPI computes
model        reads what was serialized (torch-free)
devices      asks NNAPI's C API (torch-free)
"""
