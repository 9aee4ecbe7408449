"""What a crawl must have asked for and stored, and the words for what it lacks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

from benchmarks.definition import FIELDS
from scraper.plugins.demo.catalogue import ShopGeneration, count_pages
from scraper.plugins.demo.pages import PAGE_SIZE

# a crawler may ask for it, or not
ASIDE = frozenset({"/robots.txt"})
Rows = Mapping[str, Mapping[str, Any]]


def listing_paths(generation: ShopGeneration) -> set[str]:
    return {
        f"/all?page={n}"
        for n in range(1, count_pages(len(generation.listings["all"]), PAGE_SIZE) + 1)
    }


def linked_paths(generation: ShopGeneration) -> set[str]:
    """Every product page that a listing links: sold, moved (it redirects), or gone."""
    return {item.linked_path for item in generation.items.values()} | set(generation.gone.values())


def all_paths(generation: ShopGeneration) -> set[str]:
    """Every path that one crawl asks for once: the targets of redirects as well."""
    sold = {item.path for item in generation.items.values()}
    return listing_paths(generation) | linked_paths(generation) | sold


def missing(rows: Rows, truth: Rows, fields: Sequence[str] = FIELDS) -> str | None:
    """Why these rows are not a result, or None. Prices are numbers here, decimals as text in the
    truth.

    >>> missing({}, {"7": {"name": "Pan"}}) '1 row missing'
    """
    lost, added = truth.keys() - rows.keys(), rows.keys() - truth.keys()
    wrong = [
        (key, field)
        for key in rows.keys() & truth.keys()
        for field in fields
        if _differs(rows, truth, key, field)
    ]
    said = [f"{_rows(len(lost))} missing"] if lost else []
    if added:
        said.append(f"{_rows(len(added))} too many")
    if wrong:
        key, field = min(wrong)
        example = f"{field} of {key} is {rows[key][field]!r}, not {truth[key][field]!r}"
        said.append(f"{_rows(len({key for key, _ in wrong}))} wrong ({example})")
    return ", ".join(said) or None


def _differs(rows: Rows, truth: Rows, key: str, field: str) -> bool:
    stored, meant = rows[key].get(field), truth[key][field]
    if field == "price":
        return stored is None or Decimal(str(stored)) != Decimal(str(meant))
    return bool(stored != meant)


def _rows(number: int) -> str:
    return f"{number:,} row" if number == 1 else f"{number:,} rows"


def asked_amiss(counts: Mapping[str, int], expected: Set[str]) -> str | None:
    """What was asked for more or less than once, or None.

    >>> asked_amiss({"/p/1-a": 2, "/p/3-c": 1}, {"/p/1-a", "/p/2-b"})
    '1 page never asked for, 1 twice or more, 1 unknown'
    """
    never = expected - counts.keys()
    doubled = [path for path in expected if counts.get(path, 0) > 1]
    unknown = counts.keys() - expected - ASIDE
    said = (
        [f"{len(never):,} {'page' if len(never) == 1 else 'pages'} never asked for"]
        if never
        else []
    )
    said += [f"{len(doubled):,} twice or more"] if doubled else []
    said += [f"{len(unknown):,} unknown"] if unknown else []
    return ", ".join(said) or None
