"""Waits until everything that `scraper start` has started is gone, then stops its servers: the
script of a process that survives a killed `scraper start`. Imports nothing, since it usually has
nothing to do.

Its standard input is a pipe that ends with the last process that holds the other end. It does
nothing if another `scraper start` runs by then, or the killed one had not started servers.
"""

import fcntl
import os
import sys


def main(lock: str) -> None:
    while os.read(0, 4096):
        pass
    with open(lock, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if "servers" not in file.read():
            return
        # The lock stays with this process while it stops the servers.
        os.set_inheritable(file.fileno(), True)
        os.execv(sys.executable, [sys.executable, "-m", "scraper", "down"])


if __name__ == "__main__":
    main(sys.argv[1])
