"""Reads the SQL and Lua files that accompany the modules that run them.

A file opens with a header of `--` lines: its parameters or Redis keys, what it locks, and why.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def sql(name: str) -> str:
    """Returns the statement in `name` (such as `results/NAME.sql`, below the package) without its
    comment lines: a colon in one would read as a parameter."""
    lines = _read_file(name).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("--"))


@cache
def lua(*names: str) -> str:
    """Returns the script in `names`, one file after the other: shared functions come first."""
    return "\n".join(map(_read_file, names))


def _read_file(name: str) -> str:
    return files("scraper").joinpath(name).read_text(encoding="utf-8")
