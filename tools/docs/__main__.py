"""Writes the generated pages into docs/reference: `python -m tools.docs`."""

from __future__ import annotations

from tools.docs.reference import FOLDER, pages

for name, text in pages().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
