"""The C++ of the runner and of the NNAPI and Metal references, and what compiles it.

Step: build
"""
