"""Keeps the memory that a page leaves behind for the pages after it.

By default glibc returns freed memory to the system after most pages, and each thread has memory of
its own. The system clears memory again for the next page, which takes a seventh of a worker's time
for shops' pages that are read by CSS.
"""

from __future__ import annotations

import ctypes

# Parameters of mallopt(3), by their numbers in glibc's <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
KEPT_BYTES = 64_000_000
# The largest that glibc accepts on all machines with 64 bits.
_MMAP_BYTES = 32 * 1024 * 1024


def keep_freed_memory(**_: object) -> None:
    """Lets this process keep `KEPT_BYTES` of what it frees, and share them among its threads, if
    none has started yet. Does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 1)
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
