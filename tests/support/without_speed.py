"""Environment of a program in which the libraries of the extra `speed` cannot be imported."""

from __future__ import annotations

import os
from pathlib import Path

LIBRARIES = ("backports.zstd", "brotli", "compression.zstd", "deflate", "hiredis", "isal")
SITECUSTOMIZE = f"import sys\nsys.modules.update(dict.fromkeys({LIBRARIES!r}))\n"


def environment_without_speed(folder: Path, *paths: Path) -> dict[str, str]:
    """Returns the environment. Python reads a file in `folder` when it starts; `paths` follow it on
    the path of modules."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, *paths)))}
