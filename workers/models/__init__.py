"""Models and data made ready: code, weights, images, answers of the fp32 eager model.

Step: build
Start: prepare
"""
