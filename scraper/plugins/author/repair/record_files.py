"""Recorded pages as files: `pages.json` has the URLs and the expected values, and each page is a
file of its own, compressed by gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scraper.cli.common.shared import escape_controls
from scraper.domain import Fetched, Kind
from scraper.errors import NotFoundError, ScraperError, quote_command
from scraper.plugins.author.repair.records import Record

INDEX = "pages.json"


def records_folder(definition: Path) -> Path:
    return definition.with_suffix(".pages")


def save_records(definition: Path, records: Iterable[Record]) -> Path:
    """Replaces the folder's records, and returns the folder. Equal records give equal bytes."""
    folder = records_folder(definition)
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.gz"):
        file.unlink()
    kept = list(records)
    for number, record in enumerate(kept, 1):
        (folder / _name_file(number)).write_bytes(gzip.compress(record.page.body, mtime=0))
    write_index(definition, kept)
    return folder


def write_index(definition: Path, records: Iterable[Record]) -> None:
    index = [
        {
            "file": _name_file(number),
            "kind": record.kind,
            "url": record.asked,
            "answered": record.page.url,
            "type": record.page.headers.get("content-type"),
            "captured": {
                key: [body.decode("utf-8", "replace") for body in bodies]
                for key, bodies in record.page.captured.items()
            },
            "expected": record.expected,
        }
        for number, record in enumerate(records, 1)
    ]
    # People read the file in a terminal.
    text = escape_controls(json.dumps(index, indent=1, ensure_ascii=False))
    (records_folder(definition) / INDEX).write_text(text + "\n", encoding="utf-8")


def _name_file(number: int) -> str:
    return f"{number:03}.gz"


def load_records(definition: Path) -> list[Record]:
    """Raises `NotFoundError` if nothing was recorded, `ScraperError` for files that are not
    records."""
    folder = records_folder(definition)
    if not (folder / INDEX).is_file():
        raise NotFoundError(
            f"{definition.stem}: no recorded pages in {folder}/ (fix: "
            f"`{quote_command('scraper sites record', definition.stem)}`, and commit the folder)"
        )
    try:
        return [
            _load_record(folder, entry)
            for entry in json.loads((folder / INDEX).read_text(encoding="utf-8"))
        ]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ScraperError(
            f"{folder}: cannot be read: {type(error).__name__}: {error} (fix: restore it, or "
            f"`{quote_command('scraper sites record', definition.stem)}`)"
        ) from None


def _load_record(folder: Path, entry: dict[str, Any]) -> Record:
    # Of the name only its last part counts, so that an index cannot lead out of its folder.
    body = gzip.decompress((folder / Path(entry["file"]).name).read_bytes())
    page = Fetched(
        entry["answered"],
        200,
        {"content-type": entry["type"]} if entry["type"] else {},
        body,
        captured={
            key: tuple(text.encode() for text in texts) for key, texts in entry["captured"].items()
        },
    )
    return Record(Kind(entry["kind"]), entry["url"], page, entry["expected"])
