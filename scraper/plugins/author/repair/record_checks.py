"""Recorded pages read again with the definition of today, and the values that differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from scraper.domain import Kind
from scraper.errors import ScraperError
from scraper.plugins.author.repair.record_files import load_records, write_index
from scraper.plugins.author.repair.records import Record, read_page
from scraper.sites import loader

# A row of a recorded page: `id` and `data`.
RecordedRow = dict[str, Any]


class RecordDifference(NamedTuple):
    """`page`: its URL. `field`: a field of a product, its `id`, or the links of a listing."""

    site: str
    page: str
    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class RecordCheck:
    """A site's records read again. `problem`: why they could not be read."""

    site: str
    pages: int
    differences: list[RecordDifference]
    problem: str | None = None


def check_sites(files: Sequence[Path], allowed: tuple[str, ...], update: bool) -> list[RecordCheck]:
    """Checks all sites, in up to as many processes as there are processors."""
    processes = min(len(os.sched_getaffinity(0)), len(files) // 2)
    if processes < 2:
        return [check_site(file, allowed, update) for file in files]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        number = len(files)
        return list(pool.map(check_site, files, [allowed] * number, [update] * number, chunksize=2))


def check_site(definition: Path, allowed: tuple[str, ...], update: bool) -> RecordCheck:
    """Reads the records with the definition of today. `update` records what it gives as
    expected."""
    try:
        site = loader.load_file(definition, allowed)
        records = load_records(definition)
    except ScraperError as error:
        return RecordCheck(definition.stem, 0, [], str(error))
    today = [read_page(site, record.kind, record.asked, record.page, allowed) for record in records]
    differing = [
        difference
        for record, new in zip(records, today, strict=True)
        for difference in find_differences(site.name, record, new)
    ]
    if update and differing:
        pairs = zip(records, today, strict=True)
        write_index(definition, [replace(record, expected=new) for record, new in pairs])
    return RecordCheck(site.name, len(records), differing)


def find_differences(site: str, record: Record, new: dict[str, Any]) -> Iterator[RecordDifference]:
    """Compares field by field; rows are paired by their ids."""
    if record.kind is not Kind.PRODUCT:
        for key in ("products", "listings"):
            before, now = record.expected[key], new[key]
            if set(before) != set(now):
                lost = [url for url in before if url not in now]
                more = [url for url in now if url not in before]
                yield RecordDifference(site, record.asked, key, lost, more)
        return
    for before, now in _pair_rows(record.expected["rows"], new["rows"]):
        if before is None or now is None or before["id"] != now["id"]:
            old_id, new_id = before and before["id"], now and now["id"]
            yield RecordDifference(site, record.asked, "id", old_id, new_id)
        if before is None or now is None:
            continue
        for name in dict.fromkeys((*before["data"], *now["data"])):
            old, value = before["data"].get(name), now["data"].get(name)
            if old != value:
                yield RecordDifference(site, record.asked, name, old, value)


def _pair_rows(
    old: Sequence[RecordedRow], new: Sequence[RecordedRow]
) -> list[tuple[RecordedRow | None, RecordedRow | None]]:
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    before, now = ({row["id"]: row for row in rows} for rows in (old, new))
    return [(before.get(key), now.get(key)) for key in dict.fromkeys((*before, *now))]
