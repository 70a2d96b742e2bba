"""Other releases of a runtime's library: each in a folder of its own in the cache, put before this environment's
packages in the processes that build or run with it.

Step: build
Start: environments
"""
