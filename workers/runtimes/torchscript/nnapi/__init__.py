"""Models for Android's NNAPI: converts and reads them, and lists the accelerators that support them.

rewrite      rewrites a graph for NNAPI, with the same outputs
lower        converts it to one NNAPI model inside a TorchScript module
serializer   PyTorch's serializer, with the converters of `operators`: windows, elements, reductions, shapes, views
coverage     the share of a model that NNAPI computes
model        reads a serialized model (torch-free)
devices      lists accelerators through NNAPI's C API (torch-free)
"""
