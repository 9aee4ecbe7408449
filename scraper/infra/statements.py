"""Reads the SQL and Lua files that accompany the modules that run them.

A file opens with a header of `--` lines: its parameters or Redis keys, what it locks, and why. A
line `-- include: results/NAME.sql` is replaced by the text of another file, a condition that
several statements share.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_INCLUDE = re.compile(r"\s*-- include: (\S+)")


@cache
def sql(name: str) -> str:
    """Returns the statement in `name` (such as `results/NAME.sql`, below the package) without its
    comment lines: a colon in one would read as a parameter."""
    lines = []
    for line in _read_file(name).splitlines():
        if include := _INCLUDE.match(line):
            lines.append(sql(include[1]))
        elif not line.lstrip().startswith("--"):
            lines.append(line)
    return "\n".join(lines)


@cache
def lua(*names: str) -> str:
    """Returns the script in `names`, one file after the other: shared functions come first."""
    return "\n".join(map(_read_file, names))


def _read_file(name: str) -> str:
    return files("scraper").joinpath(name).read_text(encoding="utf-8")
