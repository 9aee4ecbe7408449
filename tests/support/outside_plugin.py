"""A plug-in of another author, installed next to this program, and a project that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class OutsidePlugin:
    """The plug-in `name` of the package `shop_NAME`, with its files by their paths in the package.
    `environ` is what its project's processes see."""

    def __init__(
        self, folder: Path, name: str, files: Mapping[str, str], environ: Mapping[str, str] = {}
    ) -> None:
        self.folder = folder
        self.sites = folder / "sites"
        self.package = folder / "installed" / f"shop_{name}"
        self._environ = dict(environ)
        record = folder / "installed" / f"shop_{name}-1.0.dist-info"
        written = {
            **{self.package / path: text for path, text in {"__init__.py": "", **files}.items()},
            record / "METADATA": f"Metadata-Version: 2.1\nName: shop-{name}\nVersion: 1.0\n",
            record / "entry_points.txt": f"[scraper.plugins]\n{name} = shop_{name}.plugin:PLUGIN\n",
        }
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.sites.mkdir()

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs Python in the project."""
        environ = {name: value for name, value in os.environ.items() if "SCRAPER" not in name}
        environ |= {"PYTHONPATH": str(self.folder / "installed"), **self._environ, **more}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def scraper(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "scraper", *words, **more)

    def uninstall(self) -> None:
        (self.folder / "installed").rename(self.folder / "uninstalled")
