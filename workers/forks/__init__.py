"""Fresh processes, forked from one that has imported torch, watched and ended with all that they started.

`multiprocessing`'s fork server cannot do this. The programs are other people's code: each gets limits of its own on
time, silence, memory, output and the number of processes, which hold for all that it starts, also for what leaves its
session and its parent. Whoever forks has to adopt these orphans, count memory without what forks share with it, and end
a program's whole group before the next one starts; the server of `multiprocessing` only forks: it adopts nobody, and
whoever asks for a process is not its parent. It also runs the parent's `__main__` in each child, takes pickles, and
tells no progress.

Step: build
Start: server
"""
