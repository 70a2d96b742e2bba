"""The C++ of the runner and of the NNAPI and Metal references, and the code that compiles it.

Step: build
"""
