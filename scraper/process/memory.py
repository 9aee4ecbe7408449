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


def keep_freed_memory() -> bool:
    """Lets this process keep `KEPT_BYTES` of what it frees, and share them among its threads. Call
    it before threads start. Returns False where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(parameter, value)
        for parameter, value in (
            (_ARENA_MAX, 1),
            (_TRIM_THRESHOLD, KEPT_BYTES),
            (_MMAP_THRESHOLD, _MMAP_BYTES),
        )
    )
