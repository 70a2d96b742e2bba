"""Fresh processes, forked from one that has imported torch, watched and ended with all that they started.

Step: build
Start: server
"""
