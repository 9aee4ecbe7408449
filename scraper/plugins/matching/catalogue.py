"""The operator's own catalogue as one of the shops, from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.plugins.matching.identity.offer import parse_price, read_offer
from scraper.plugins.matching.linking import step, store
from scraper.plugins.matching.linking.store import IncomingOffer

ROWS_MAX = 2_000_000
BATCH = 1000
PROBLEMS_MAX = 20
ID_COLUMNS = ("sku", "id", "external_id")
TITLE_COLUMNS = ("title", "name")
# Rows of the catalogue that its file no longer has.
UNLIST = sa.text("""
UPDATE offers SET listed = false WHERE site = :site AND listed AND NOT (external_id = ANY (:ids))
""")
TAKEN = sa.text("SELECT EXISTS (SELECT FROM sites WHERE name = :site)")


def import_catalogue(engine: sa.Engine, name: str, path: Path, currency: str | None) -> int:
    """Makes the rows of a CSV file the offers of the shop `name`; rows that the file no longer has
    are no longer listed. Returns how many there are. Raises `ConfigError` with one line per
    problem, and changes nothing then."""
    offers = read_catalogue(name, path, currency)
    with engine.begin() as connection:
        if connection.execute(TAKEN, {"site": name}).scalar():
            raise ConfigError(f"{name!r} is a site that is crawled (fix: choose another name)")
        store.wait_for_lock(connection)
        learned = store.read_learned(connection)
        for first in range(0, len(offers), BATCH):
            step.apply_offers(connection, offers[first : first + BATCH], learned)
        values = {"site": name, "ids": [offer.external_id for offer in offers]}
        connection.execute(UNLIST, values)
    return len(offers)


def read_catalogue(name: str, path: Path, currency: str | None) -> list[IncomingOffer]:
    """Reads a CSV file with a header: `sku`, `title`, and optionally `gtin`, `mpn`, `brand`,
    `price`, `currency`, `url`. Raises `ConfigError` with one line per problem."""
    problems: list[str] = []
    offers: dict[str, IncomingOffer] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line, row in _read_rows(path, file):
                fields = {key: value.strip() for key, value in row.items() if key and value}
                external_id = _first_value(fields, ID_COLUMNS)
                fields["currency"] = fields.get("currency") or currency or ""
                problem = _find_problem(fields, external_id, offers)
                if problem is not None or external_id is None:
                    problems.append(f"{path}:{line}: {problem}")
                    continue
                offers[external_id] = _make_offer(name, external_id, fields)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: cannot be read: {error} (fix: a CSV file in UTF-8)") from None
    if problems:
        more = [f"… and {len(problems) - PROBLEMS_MAX} more"] * (len(problems) > PROBLEMS_MAX)
        raise ConfigError("\n".join([*problems[:PROBLEMS_MAX], *more]))
    return list(offers.values())


def _read_rows(path: Path, file: Any) -> Iterator[tuple[int, dict[str, str]]]:
    header = file.read(4096).partition("\n")[0]
    file.seek(0)
    delimiter = ";" if header.count(";") > header.count(",") else ","
    rows = csv.DictReader(file, delimiter=delimiter)
    rows.fieldnames = [name.strip().lower() for name in rows.fieldnames or ()]
    if not set(rows.fieldnames) & set(ID_COLUMNS):
        raise ConfigError(
            f"{path}:1: no column `sku` (fix: sku,title,gtin,mpn,brand,price,currency)"
        )
    for row in rows:
        if rows.line_num > ROWS_MAX:
            raise ConfigError(f"{path}: more than {ROWS_MAX:,} rows")
        yield rows.line_num, row


def _find_problem(
    fields: dict[str, str], external_id: str | None, offers: dict[str, IncomingOffer]
) -> str | None:
    if external_id is None:
        return "no sku"
    if external_id in offers:
        return f"sku {external_id!r} is in the file twice"
    if fields.get("price") and parse_price(fields["price"], fields["currency"]) is None:
        return f"price: {fields['price']!r} is not a number (fix: as in 19.90)"
    return None


def _make_offer(name: str, external_id: str, fields: dict[str, str]) -> IncomingOffer:
    data: dict[str, Any] = {**fields, "title": _first_value(fields, TITLE_COLUMNS) or ""}
    data["price"] = parse_price(fields.get("price", ""), fields["currency"])
    data["price_currency"] = fields["currency"] or None
    identity, terms = read_offer(data)
    return IncomingOffer(name, external_id, fields.get("url"), identity, terms)


def _first_value(fields: dict[str, str], names: Sequence[str]) -> str | None:
    return next((fields[name] for name in names if fields.get(name)), None)
