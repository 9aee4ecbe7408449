"""Pages and what a definition gives on them, kept beside it: `sites/NAME.pages/`. Read again
without the network, they tell what a change of the definition changes.

`pages.json` has the addresses and the expected values; each page is a file of its own, packed by
gzip. Of an answer's headers the type alone is kept, and of its text nothing that our settings keep
secret.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from scraper.domain import Extracted, Fetched, Kind
from scraper.errors import NotFoundError, ScraperError
from scraper.extract import FunctionFailed, TooSlow
from scraper.extract.extractor import compile_site
from scraper.infra.database import dumps
from scraper.infra.redaction import passwords_in, redact
from scraper.plugins.accounts.file import read as read_accounts
from scraper.plugins.author.discovery.polite_reader import PoliteReader
from scraper.plugins.author.discovery.sampling import Sampler, spread_sample
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site

INDEX = "pages.json"
# One page in so many is a listing.
LISTING_EVERY = 5
# What is shorter may stand on a page by chance.
SECRET_MIN = 6
_SECRET_HEADER = re.compile(r"auth|cookie|token|key|secret|session", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Record:
    """A page, and what its definition gave. `asked`: its URL in the frontier."""

    kind: Kind
    asked: str
    page: Fetched
    expected: dict[str, Any]


class Difference(NamedTuple):
    """`page`: its URL. A row's `id` or a field, or the links of a listing."""

    site: str
    page: str
    field: str
    old: Any
    new: Any


class KeepingReader(PoliteReader):
    """Remembers what it has read."""

    kept: list[tuple[str, Kind, Fetched]]

    async def __aenter__(self) -> KeepingReader:
        self.kept = []
        return self

    async def read(
        self,
        url: str,
        kind: Kind,
        *,
        shown: bool = False,
        rendering: Mapping[str, Any] | None = None,
    ) -> Fetched:
        page = await super().read(url, kind, shown=shown, rendering=rendering)
        self.kept.append((url, kind, page))
        return page


def fetch(site: Site, settings: Settings, pages: int) -> tuple[list[Record], int]:
    """The records, and how many requests they took. Raises `FetchError`, and `ScraperError` where
    no product would be stored."""

    async def run() -> tuple[list[Record], int]:
        async with KeepingReader(site, settings) as reader:
            return await gather(reader, settings, pages), reader.requests

    return asyncio.run(run())


async def gather(reader: KeepingReader, settings: Settings, pages: int) -> list[Record]:
    """So many pages of the reader's site, each once: some that list, most of products. Raises
    `ScraperError` where no product would be stored."""
    site, allowed = reader.context.site, settings.site_function_modules
    sampler = Sampler(reader, allowed)
    listings = (await sampler.sample(0)).listings
    products = [link for trial in listings for link in trial.products]
    further = [link for trial in listings for link in trial.listings]
    seen = {url for url, _, _ in reader.kept}
    for url in spread_sample(dict.fromkeys(further), max(0, pages // LISTING_EVERY - len(seen))):
        trial = await sampler.fetch_listing(url)
        products += trial.products
    problems = [problem for trial in listings for problem in trial.problems]
    for url in spread_sample(dict.fromkeys(products), max(1, pages - len(reader.kept))):
        problems += (await sampler.fetch_product(url)).problems
    secrets = secrets_of(settings, site)
    records: dict[str, Record] = {}
    for asked, kind, page in reader.kept:
        kept = _without_secrets(page, secrets)
        asked = redact(asked)
        expected = read(site, kind, asked, kept, allowed)
        if kind is not Kind.PRODUCT or expected["rows"]:
            records[asked] = Record(kind, asked, kept, expected)
    if not any(record.kind is Kind.PRODUCT for record in records.values()):
        raise ScraperError(
            f"{site.name}: no product page was read that a crawl would store"
            f"{': ' if problems else ''}{'; '.join(problems[:2])} "
            f"(fix: see `scraper try {site.name}`)"
        )
    return list(records.values())


def read(
    site: Site, kind: Kind, asked: str, page: Fetched, allowed: tuple[str, ...]
) -> dict[str, Any]:
    """What the definition gives, as JSON: `rows` of a product page, each with `id` and `data`, none
    where it would not be stored; else the links. `problem` where a function fails."""
    try:
        extracted = compile_site(site, allowed).extract(kind, page, page_url=asked, depth=1)
    except (FunctionFailed, TooSlow) as error:
        extracted = Extracted(problems=[str(error)], complete=False)
    if kind is Kind.PRODUCT:
        products = extracted.products if extracted.complete else []
        given: dict[str, Any] = {
            "rows": [{"id": product.external_id, "data": product.data} for product in products]
        }
    else:
        given = {
            "products": [link.url for link in extracted.links if link.kind is Kind.PRODUCT],
            "listings": [link.url for link in extracted.links if link.kind is not Kind.PRODUCT],
        }
    values: dict[str, Any] = json.loads(dumps(given))
    return values


def differences(site: str, record: Record, new: dict[str, Any]) -> Iterator[Difference]:
    """Field by field, a row with the row of its id."""
    if record.kind is not Kind.PRODUCT:
        for key in ("products", "listings"):
            before, now = record.expected[key], new[key]
            if set(before) != set(now):
                lost = [url for url in before if url not in now]
                more = [url for url in now if url not in before]
                yield Difference(site, record.asked, key, lost, more)
        return
    rows = _paired(record.expected["rows"], new["rows"])
    for before, now in rows:
        if before is None or now is None or before["id"] != now["id"]:
            yield Difference(site, record.asked, "id", before and before["id"], now and now["id"])
        if before is None or now is None:
            continue
        for name in dict.fromkeys((*before["data"], *now["data"])):
            old, value = before["data"].get(name), now["data"].get(name)
            if old != value:
                yield Difference(site, record.asked, name, old, value)


Row = dict[str, Any]


def _paired(old: Sequence[Row], new: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    if len(old) == len(new) == 1:
        return [(old[0], new[0])]
    before, now = ({row["id"]: row for row in rows} for rows in (old, new))
    return [(before.get(key), now.get(key)) for key in dict.fromkeys((*before, *now))]


def folder_of(definition: Path) -> Path:
    return definition.with_suffix(".pages")


def save(definition: Path, records: Iterable[Record]) -> Path:
    """Writes the records in place of former ones; equal ones give equal bytes."""
    folder = folder_of(definition)
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.gz"):
        file.unlink()
    kept = list(records)
    for number, record in enumerate(kept, 1):
        (folder / _file(number)).write_bytes(gzip.compress(record.page.body, mtime=0))
    _write_index(folder, kept)
    return folder


def _file(number: int) -> str:
    return f"{number:03}.gz"


def _write_index(folder: Path, records: Iterable[Record]) -> None:
    index = []
    for number, record in enumerate(records, 1):
        index.append(
            {
                "file": _file(number),
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
        )
    text = json.dumps(index, indent=1, ensure_ascii=False)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")


def load(definition: Path) -> list[Record]:
    """Raises `NotFoundError` where nothing was recorded, `ScraperError` for what is no record."""
    folder = folder_of(definition)
    if not (folder / INDEX).is_file():
        raise NotFoundError(
            f"{definition.stem}: no recorded pages in {folder}/ (fix: `scraper sites record "
            f"{definition.stem}`, and commit the folder)"
        )
    try:
        return [
            _record(folder, entry)
            for entry in json.loads((folder / INDEX).read_text(encoding="utf-8"))
        ]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise ScraperError(
            f"{folder}: cannot be read: {type(error).__name__}: {error} (fix: restore it, or "
            f"`scraper sites record {definition.stem}`)"
        ) from None


def _record(folder: Path, entry: dict[str, Any]) -> Record:
    # The name is a file's beside the index, whoever has written that.
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


@dataclass(frozen=True, slots=True)
class Proof:
    """A site's records read again. `problem`: why they could not be."""

    site: str
    pages: int
    differences: list[Difference]
    problem: str | None = None


def prove(definition: Path, allowed: tuple[str, ...], update: bool) -> Proof:
    """Reads the records with the definition of today; `update` takes what it gives as expected."""
    try:
        site = loader.load_file(definition, allowed)
        records = load(definition)
    except ScraperError as error:
        return Proof(definition.stem, 0, [], str(error))
    today = [read(site, record.kind, record.asked, record.page, allowed) for record in records]
    differing = [
        difference
        for record, new in zip(records, today, strict=True)
        for difference in differences(site.name, record, new)
    ]
    if update and differing:
        pairs = zip(records, today, strict=True)
        _write_index(
            folder_of(definition), [replace(record, expected=new) for record, new in pairs]
        )
    return Proof(site.name, len(records), differing)


def prove_all(files: Sequence[Path], allowed: tuple[str, ...], update: bool) -> list[Proof]:
    """All sites, on as many processors as there are."""
    processes = min(len(os.sched_getaffinity(0)), len(files) // 2)
    if processes < 2:
        return [prove(file, allowed, update) for file in files]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        number = len(files)
        return list(pool.map(prove, files, [allowed] * number, [update] * number, chunksize=2))


def secrets_of(settings: Settings, site: Site) -> list[str]:
    """What no recorded page may hold, the longest first."""
    values = {
        password
        for url in (settings.postgres_url, settings.valkey_url, settings.celery_broker_url)
        for password in passwords_in(url)
    }
    values |= {key.strip() for key in (settings.secret_key or "").split(",")}
    values |= {settings.flower_password or ""}
    values |= {value for name, value in site.headers.items() if _SECRET_HEADER.search(name)}
    if settings.accounts is not None:
        for accounts in read_accounts(settings.accounts).values():
            values |= {text for account in accounts for text in account.values.values()}
    return sorted((value for value in values if len(value) >= SECRET_MIN), key=len, reverse=True)


def _without_secrets(page: Fetched, secrets: Collection[str]) -> Fetched:
    def clean(body: bytes) -> bytes:
        for secret in secrets:
            body = body.replace(secret.encode(), b"***")
        return body

    return Fetched(
        redact(page.url),
        200,
        {key: value for key, value in page.headers.items() if key == "content-type"},
        clean(page.body),
        captured={key: tuple(map(clean, bodies)) for key, bodies in page.captured.items()},
    )
