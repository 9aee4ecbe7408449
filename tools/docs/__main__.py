"""Writes the generated pages into docs/reference, and the picture into docs/img, and
docs/llms.txt: `python -m tools.docs`."""

from __future__ import annotations

from tools.docs.llms import DOCS, llms_text
from tools.docs.picture import architecture_svg
from tools.docs.reference import FOLDER, pages

for name, text in pages().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
(DOCS / "llms.txt").write_text(llms_text(), encoding="utf-8")
(FOLDER.parent / "img" / "architecture.svg").write_text(architecture_svg(), encoding="utf-8")
