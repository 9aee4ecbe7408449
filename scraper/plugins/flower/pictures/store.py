"""The pictures that PostgreSQL keeps: the newest, bounded in number, bytes and age. What is not a
picture is kept as well, so that a broken one is not requested at each look."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple
from urllib.parse import urljoin

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.infra.statements import sql
from scraper.results.products import parse_data

KEPT_MAX, KEPT_MAX_BYTES, KEPT_DAYS = 1000, 100_000_000, 30
# A shop may put right what was no picture.
REFUSED_MINUTES = 60
URL_MAX_CHARS = 2048
# The fields that may hold a picture's address, the usual ones first.
FIELDS = ("image", "image_url", "images", "picture", "pictures", "photo", "thumbnail")
FIND = sa.text(
    "SELECT s.id AS site_id, s.definition, s.paused OR NOT s.enabled AS paused, p.url,"
    " CAST(p.data AS text) AS data FROM products p JOIN sites s ON s.id = p.site_id"
    " WHERE s.name = :site AND p.external_id = :id"
)
LOOK_UP = sa.text(sql("plugins/flower/pictures/look_up.sql"))
STORE = sa.text(sql("plugins/flower/pictures/store_picture.sql"))
PRUNE = sa.text(sql("plugins/flower/pictures/prune_pictures.sql"))
# One process at a time prunes, so that two do not wait for each other's rows.
LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtext('product_pictures'))")


class Stored(NamedTuple):
    """What a request gave: a picture, or a problem."""

    media_type: str | None
    body: bytes | None
    problem: str | None


class ProductPicture(NamedTuple):
    """A product's picture, and the site whose rules its request follows. `kept`: what the last
    request gave, as long as that counts."""

    site_id: int
    url: str
    definition: dict[str, Any]
    paused: bool
    kept: Stored | None


def find_address(data: dict[str, Any], page: str) -> str | None:
    """Returns the address of a product's picture; None if its fields have none.

    >>> find_address({"image": "/a.png"}, "https://shop.example/p/1")
    'https://shop.example/a.png'
    """
    for name in FIELDS:
        value = data.get(name)
        text = next(iter(value), None) if isinstance(value, list) else value
        if not isinstance(text, str) or not text:
            continue
        try:
            url = urljoin(page, text)
        except ValueError:
            continue
        if url.lower().startswith(("http://", "https://")) and len(url) <= URL_MAX_CHARS:
            return url
    return None


def is_known(connection: sa.Connection, site: str, product: str) -> bool:
    """Returns whether a product has a picture, as far as is known: its fields have an address that
    was not without a picture the last time."""
    try:
        kept = look_up(connection, site, product).kept
    except NotFoundError:
        return False
    return kept is None or kept.problem is None


def look_up(connection: sa.Connection, site: str, product: str) -> ProductPicture:
    """Returns the picture of a product. Raises `NotFoundError` without one."""
    row = connection.execute(FIND, {"site": site, "id": product}).one_or_none()
    url = None if row is None else find_address(parse_data(row.data), row.url)
    if row is None or url is None:
        raise NotFoundError(f"{site} has no picture of {product!r}")
    kept = find_kept(connection, row.site_id, url)
    return ProductPicture(row.site_id, url, row.definition, row.paused, kept)


def find_kept(connection: sa.Connection, site_id: int, url: str) -> Stored | None:
    """Returns what the last request for a picture gave, as long as that counts."""
    values = {"site_id": site_id, "url_hash": hash_url(url)}
    limits = {"days": KEPT_DAYS, "minutes": REFUSED_MINUTES}
    kept = connection.execute(LOOK_UP, values | limits).one_or_none()
    return None if kept is None else Stored(*kept)


def store(connection: sa.Connection, wanted: ProductPicture, result: Stored) -> None:
    """Stores what a request gave, and drops the oldest pictures."""
    connection.execute(LOCK)
    values = {"site_id": wanted.site_id, "url_hash": hash_url(wanted.url), **result._asdict()}
    connection.execute(STORE, {**values, "size": len(result.body or b"")})
    most = {"most": KEPT_MAX, "most_bytes": KEPT_MAX_BYTES, "days": KEPT_DAYS}
    connection.execute(PRUNE, most)


def hash_url(url: str) -> bytes:
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
