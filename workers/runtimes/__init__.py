"""Toolchains: what each can build, how it builds it, and the runner for its files. A runtime knows no device.

Step: build
Start: interface
"""
