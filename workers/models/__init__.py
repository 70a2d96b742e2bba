"""Prepares models and data: code, weights, images, outputs of the fp32 eager model.

Step: build
Start: prepare
"""
