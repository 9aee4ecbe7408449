"""The names that lxml keeps: forgotten now and then, or a worker's memory would hold every name it ever met.

libxml2 keeps each name of an element or attribute once, in a dictionary that lxml shares among all that a thread parses,
for as long as the thread lives. Shops have a few hundred names; but one whose scripts make up names (`data-v-7ba5bd90`), or
a page that is made for it, adds 40 to 60 bytes for each that is new: a page of 16 MB some 100 MB, for good.

lxml has no way to empty it. Here a thread's dictionary is taken from it, and lxml makes another: just as in a new thread.
Trees that are left keep theirs. This is nothing that lxml promises; where it changes, names are kept as before, and a test
says so.
"""

from __future__ import annotations

import ctypes
import sys
import threading

FORGET_AFTER_BYTES = 4_194_304  # parsed; a new dictionary costs 20 us: 0.25 us for each page of 50 KB
_KEY = "_ParserDictionaryContext"


class _Parsed(threading.local):
    size = 0


_parsed = _Parsed()


def met(size: int) -> None:
    """This thread is about to parse so many bytes of somebody else's."""
    _parsed.size += size
    if _parsed.size > FORGET_AFTER_BYTES:
        _parsed.size = size
        forget()


def forget() -> None:
    """Takes the names from this thread."""
    if _state_dict is not None and (address := _state_dict()):
        # A borrowed reference: handed out by ctypes as an object at once, it would be released once too often.
        kept: dict[str, object] = ctypes.cast(address, ctypes.py_object).value
        kept.pop(_KEY, None)


_state_dict = (
    ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThreadState_GetDict", ctypes.pythonapi))
    if sys.implementation.name == "cpython"
    else None
)
