"""Runtimes: what each toolchain can build, how it builds it, and the runner for its files. Independent of devices.

Step: build
Start: interface
"""
