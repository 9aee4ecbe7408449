"""Reads labelled sets of offers, in the formats in which public ones are published.

- Two CSV files of offers and one of pairs, whose name ends in `perfectMapping.csv` (Abt-Buy,
  Amazon-Google): every pair of the two shops that is not in it is a different product.
- `tableA.csv`, `tableB.csv`, and pairs with `ltable_id, rtable_id, label` in `train.csv`,
  `valid.csv`, `test.csv` (Walmart-Amazon and others in this form).
- One record per pair, in CSV files or JSON lines (also gzip): the fields of two offers with `left_`
  and `right_` before their names, or `_left` and `_right`, or `1` and `2` after them; and `label`
  or `match` (WDC Products, ProMap).
- `offers.csv`, with the columns `id`, `shop`, `title`, `cluster`, and others: offers of one cluster
  are one product.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from scraper.plugins.matching.identity.offer import parse_price

Key = tuple[str, str]
Pair = frozenset[Key]
ROW_CHARS_MAX = 10_000_000
ENCODINGS = "utf-8-sig", "latin-1"
_SIDES = (("left_", "right_", True), ("_left", "_right", False), ("1", "2", False))
_YES = ("1", "true", "yes")


@dataclass
class LabelledSet:
    """Offers of some shops by (shop, id), each with its fields. `complete`: every pair of offers of
    two shops that is not `same` is different; otherwise only those in `different` are known."""

    name: str
    offers: dict[Key, dict[str, Any]] = field(default_factory=dict)
    same: set[Pair] = field(default_factory=set)
    different: set[Pair] = field(default_factory=set)
    complete: bool = False


def find_sets(folder: Path) -> Iterator[LabelledSet]:
    """Yields the sets in a folder and in its folders."""
    for place in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        files = sorted(path for path in place.iterdir() if path.is_file())
        names = {path.name.lower(): path for path in files}
        mapping = next((path for name, path in names.items() if "mapping" in name), None)
        if mapping is not None:
            yield _read_mapping(place.name, mapping, [p for p in files if p.suffix == ".csv"])
        elif "tablea.csv" in names:
            yield _read_tables(place.name, names)
        elif "offers.csv" in names:
            yield _read_clusters(place.name, names["offers.csv"])
        else:
            pairs = [path for path in files if re.search(r"\.(csv|jsonl?)(\.gz)?$", path.name)]
            if pairs:
                yield _read_pairs(place.name, pairs)


def _read_mapping(name: str, mapping: Path, files: Iterable[Path]) -> LabelledSet:
    labelled = LabelledSet(name, complete=True)
    shops = [path for path in files if path != mapping]
    columns: list[str] = []
    rows = list(_read_csv(mapping))
    columns = list(rows[0])
    # The columns are called after the shops: idAbt, idBuy.
    shops.sort(key=lambda path: _column_of(path, columns))
    for path in shops:
        for row in _read_csv(path):
            labelled.offers[path.stem, row["id"]] = _clean_fields(row)
    one, other = (path.stem for path in shops)
    for row in rows:
        labelled.same.add(frozenset(((one, row[columns[0]]), (other, row[columns[1]]))))
    return labelled


def _column_of(path: Path, columns: list[str]) -> int:
    names = [column.lower().removeprefix("id") for column in columns]
    stem = path.stem.lower()
    return next((index for index, name in enumerate(names) if name and name in stem), len(names))


def _read_tables(name: str, files: Mapping[str, Path]) -> LabelledSet:
    labelled = LabelledSet(name)
    for side in "ab":
        for row in _read_csv(files[f"table{side}.csv"]):
            labelled.offers[side, row["id"]] = _clean_fields(row)
    for part in ("train.csv", "valid.csv", "test.csv"):
        for row in _read_csv(files[part]) if part in files else ():
            pair = frozenset((("a", row["ltable_id"]), ("b", row["rtable_id"])))
            (labelled.same if row["label"] == "1" else labelled.different).add(pair)
    return labelled


def _read_clusters(name: str, path: Path) -> LabelledSet:
    labelled = LabelledSet(name, complete=True)
    clusters: dict[str, list[Key]] = {}
    for row in _read_csv(path):
        key = row["shop"], row["id"]
        labelled.offers[key] = _clean_fields(row)
        clusters.setdefault(row["cluster"], []).append(key)
    for keys in clusters.values():
        labelled.same.update(
            frozenset(pair) for pair in combinations(keys, 2) if pair[0][0] != pair[1][0]
        )
    return labelled


def _read_pairs(name: str, paths: Iterable[Path]) -> LabelledSet:
    labelled = LabelledSet(name)
    for path in paths:
        for row in _read_json(path) if ".json" in path.name else _read_csv(path):
            label = row.get("label", row.get("match"))
            sides = next((s for s in _SIDES if any(_is_of(key, s[0], s[2]) for key in row)), None)
            if label is None or sides is None:
                break
            keys = [
                _add_offer(labelled, shop, _side_of(row, mark, before=sides[2]))
                for shop, mark in zip(("left", "right"), sides[:2], strict=True)
            ]
            known = labelled.same if str(label).lower() in _YES else labelled.different
            known.add(frozenset(keys))
    labelled.different -= labelled.same
    return labelled


def _add_offer(labelled: LabelledSet, shop: str, fields: dict[str, Any]) -> Key:
    """Adds an offer once, however many pairs it is in. Returns its key."""
    identity = fields.get("id") or json.dumps(
        {key: str(value) for key, value in fields.items()}, sort_keys=True
    )
    key = shop, str(identity)
    labelled.offers.setdefault(key, _clean_fields(fields))
    return key


def _is_of(column: str, mark: str, before: bool) -> bool:
    return column.startswith(mark) if before else column.endswith(mark)


def _side_of(row: Mapping[str, Any], mark: str, *, before: bool) -> dict[str, Any]:
    cut = str.removeprefix if before else str.removesuffix
    return {cut(key, mark): value for key, value in row.items() if _is_of(key, mark, before)}


def _clean_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an offer's fields as crawls store them."""
    fields = {key.lower(): value for key, value in row.items() if value not in (None, "")}
    price = re.sub(r"[^\d.,]", "", str(fields.pop("price", "")))
    fields["price"] = parse_price(price.replace(",", "") if "." in price else price)
    fields["price_currency"] = fields.pop("pricecurrency", None)
    try:
        pairs = json.loads(fields.get("specification", "[]"))
        stated = {str(pair["key"]).lower(): pair["value"] for pair in pairs}
    except (ValueError, TypeError, KeyError):
        stated = {}
    for names, name in (
        (("manufacturer part number", "item model number", "model"), "mpn"),
        (("brand",), "brand"),
        (("gtin", "upc", "ean"), "gtin"),
    ):
        fields.setdefault(name, next((stated[key] for key in names if stated.get(key)), None))
    return fields


def _read_csv(path: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(ROW_CHARS_MAX)
    text = next(text for encoding in ENCODINGS if (text := _decode(path, encoding)) is not None)
    yield from csv.DictReader(text.splitlines(keepends=True))


def _decode(path: Path, encoding: str) -> str | None:
    try:
        return path.read_bytes().decode(encoding)
    except UnicodeDecodeError:
        return None


def _read_json(path: Path) -> Iterator[dict[str, Any]]:
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)
