"""The newest changes as an Atom feed (RFC 4287), for feed readers.

Shops' texts become text nodes only, and signs that XML forbids or that turn text around are
replaced. An entry's id is made from its place in the feed of changes, so that it never moves.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from xml.etree.ElementTree import Element, SubElement, tostring

from scraper.rules import urls

NAMESPACE = "http://www.w3.org/2005/Atom"
# What XML 1.0 forbids, and what turns or hides text.
_FORBIDDEN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
NOTHING_YET = datetime(1970, 1, 1, tzinfo=UTC)


def write_feed(
    changes: Sequence[Mapping[str, Any]], site: str | None, own: str, pages: str
) -> bytes:
    """Returns the feed. `own`: its address; `pages`: the address of the tab, with the host."""
    feed = Element("feed", xmlns=NAMESPACE)
    _add_text(feed, "title", f"Changes at {site}" if site else "Changes at all shops")
    _add_text(feed, "id", _make_id("feed", site or ""))
    _add_text(feed, "updated", _show_time(changes[0]["at"] if changes else NOTHING_YET))
    _add_link(feed, "self", own)
    _add_link(feed, "alternate", f"{pages}/sites/{site}" if site else pages)
    for change in changes:
        feed.append(_make_entry(change, pages))
    text: bytes = tostring(feed, "utf-8", xml_declaration=True)
    return text


def _make_entry(change: Mapping[str, Any], pages: str) -> Element:
    entry = Element("entry")
    _add_text(entry, "title", describe_change(change))
    _add_text(entry, "id", _make_id(change["site"], change["id"], change["cursor"]))
    _add_text(entry, "updated", _show_time(change["at"]))
    _add_text(SubElement(entry, "author"), "name", change["site"])
    SubElement(entry, "category", term=change["event"])
    query = urlencode({"site": change["site"], "id": change["id"]}, errors="replace")
    own = f"{pages}/products?{query}"
    if urls.clean(change["url"]) is not None:
        _add_link(entry, "alternate", change["url"])
        _add_link(entry, "related", own)
    else:
        _add_link(entry, "alternate", own)
    lines = [
        f"{field['field']}: {field['before'] or 'nothing'} → {field['after'] or 'nothing'}"
        + (f" ({field['percent']})" if field["percent"] else "")
        for field in change["fields"]
    ]
    if change["more"]:
        lines.append(f"and {change['more']} more fields")
    _add_text(entry, "content", "\n".join(lines) or describe_change(change)).set("type", "text")
    return entry


def describe_change(change: Mapping[str, Any]) -> str:
    """Returns a line such as `books: Kettle, 20.00 EUR → 10.00 EUR (-50.0%)`."""
    name = f"{change['site']}: {change['title'] or change['id']}"
    if change["event"] != "changed" or not change["fields"]:
        price = f", {change['price']}" if change["price"] else ""
        return f"{name}, {change['event']}{price}"
    first = change["fields"][0]
    if not first["percent"]:
        return f"{name}, {', '.join(field['field'] for field in change['fields'])} changed"
    return f"{name}, {first['before']} → {first['after']} ({first['percent']})"


def replace_forbidden(text: str) -> str:
    """Returns a text that every XML parser reads.

    >>> replace_forbidden("]]> \\x1b\\u202e <b>")
    ']]> �� <b>'
    """
    return _FORBIDDEN.sub("\ufffd", text)


def _add_text(parent: Element, name: str, text: str) -> Element:
    child = SubElement(parent, name)
    child.text = replace_forbidden(text)
    return child


def _add_link(parent: Element, relation: str, address: str) -> None:
    SubElement(parent, "link", rel=relation, href=replace_forbidden(address))


def _show_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _make_id(*parts: object) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, repr(('scraper', *parts)))}"
