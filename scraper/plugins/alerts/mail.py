"""Writes alerts as mail: a subject, and HTML from which apprise also makes the part in plain text.
Pure. Texts of shops are cleaned and escaped; only web addresses become links."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Any

from scraper.cli.common.tables import one_line
from scraper.feed.prices import as_number, format_amount, percent_change, percent_text
from scraper.rules import urls

TEXT_MAX = 300
SUBJECT_MAX = 150
LEAST = Decimal("0.1")
COLUMNS = ("Product", "Shop", "Was", "Now", "Change", "Link")
# What these rules say of all their alerts is a move of prices.
_MOVES = re.compile(r"(?:fell|rose|changed|lowest)\b").match
_TAG = re.compile(r"</?[A-Za-z!?][^<>]*>")
_QUOTED = str.maketrans({"<": "%3C", ">": "%3E", '"': "%22"})
_TABLE = '<table border="1" cellpadding="6" style="border-collapse:collapse;text-align:left">'


@dataclass(frozen=True, slots=True)
class Mail:
    """A message for mail programs. The subject is one line."""

    subject: str
    html: str


def flatten_text(text: Any) -> str:
    """Returns a shop's text on one line without control characters, signs that turn text round, and
    markup.

    >>> flatten_text("La\\u202emp\\r\\nBcc: x <b>3 < 5</b><<i>script>")
    'La mp Bcc: x 3 < 5'
    """
    line = one_line(str(text)[: 10 * TEXT_MAX])
    # What is left of a tag inside a tag may be a tag.
    while (plain := _TAG.sub("", line)) != line:
        line = plain
    line = " ".join(line.split())
    return line if len(line) <= TEXT_MAX else f"{line[: TEXT_MAX - 1]}…"


def write_prices(name: str, when: str, alerts: Sequence[Mapping[str, Any]], tab: str) -> Mail:
    """Writes the alerts of a rule, given as webhooks receive them. `tab` is the address of the
    Crawls tab, or empty."""
    rows = "\n".join(_write_row(alert) for alert in alerts)
    head = "".join(f"<th>{column}</th>" for column in COLUMNS)
    subject = _write_subject(name, when, alerts)
    links = _write_links(tab, {"Notifications": "crawls/alerts"})
    return Mail(
        subject,
        f"<p>{escape(subject)}</p>\n"
        f"{_TABLE}<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{rows}</tbody></table>\n<p>Rule: {escape(flatten_text(name))}</p>{links}",
    )


def write_crawl(title: str, lines: Sequence[str], crawl: int, tab: str) -> Mail:
    """Writes the alert about a crawl. Accept is a link to the crawl's page, which asks for a login:
    a mail program that opens links beforehand accepts nothing."""
    shown = [_keep_indent(line) for text in lines for line in text.splitlines()]
    page = f"crawls/{crawl}"
    links = _write_links(tab, {"Accept or reject this crawl": page, "All crawls": "crawls"})
    return Mail(flatten_text(title)[:SUBJECT_MAX], f"<p>{'<br>'.join(shown)}</p>{links}")


def _keep_indent(line: str) -> str:
    """Returns a line as HTML. Its own spaces at the beginning stay."""
    return "&nbsp;" * (len(line) - len(line.lstrip(" "))) + escape(flatten_text(line))


def _write_links(tab: str, pages: Mapping[str, str]) -> str:
    """Returns links to pages of the Crawls tab, with addresses that plain text shows too."""
    if not tab:
        return ""
    addresses = {label: f"{tab.rstrip('/')}/{page}" for label, page in pages.items()}
    return "".join(
        f'\n<p>{label}: <a href="{escape(url)}">{escape(url)}</a></p>'
        for label, url in addresses.items()
    )


def _write_row(alert: Mapping[str, Any]) -> str:
    currency = flatten_text(alert.get("currency") or "") or None
    was, now = alert.get("before"), alert.get("after", alert.get("price"))
    cells = [
        escape(flatten_text(alert.get("name") or alert.get("product") or "")),
        escape(flatten_text(alert.get("site") or "")),
        escape(_write_value(was, currency)),
        escape(_write_value(now, currency)),
        escape(percent_text(percent_change(was, now)) or flatten_text(alert.get("event") or ""))
        + escape(_name_best(alert, currency)),
        _write_address(alert.get("url")),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _name_best(alert: Mapping[str, Any], currency: str | None) -> str:
    """Returns the best offer of all shops, if another shop has it."""
    best = alert.get("best")
    if not best or best["site"] == alert.get("site"):
        return ""
    return f"; best {_write_value(best['price'], currency)} at {flatten_text(best['site'])}"


def _write_value(value: Any, currency: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    number = as_number(value)
    return format_amount(number, currency) if number is not None else flatten_text(value or "")


def _write_address(address: Any) -> str:
    """Returns a product's address as a link that shows where it leads; empty if it is not a web
    address."""
    url = one_line(str(address or "")).translate(_QUOTED)
    if " " in url or urls.clean(url) is None:
        return ""
    return f'<a href="{escape(url)}" rel="noreferrer">{escape(url)}</a>'


def _write_subject(name: str, when: str, alerts: Sequence[Mapping[str, Any]]) -> str:
    """Returns, for example, `berg2: 8 prices fell, up to 40 %`; with one alert its product."""
    sites = {str(alert.get("site")) for alert in alerts}
    start = flatten_text(sites.pop() if len(sites) == 1 else name)
    text = _describe_moves(alerts) if _MOVES(when) else ""
    noun = "product" if len(alerts) == 1 else "products"
    text = text or f"{len(alerts)} " + (f"new {noun}" if when == "new" else f"{noun} {when}")
    if len(alerts) == 1:
        text += f": {flatten_text(alerts[0].get('name') or alerts[0].get('product') or '')}"
    subject = f"{start}: {text}"
    return subject if len(subject) <= SUBJECT_MAX else f"{subject[: SUBJECT_MAX - 1]}…"


def _describe_moves(alerts: Sequence[Mapping[str, Any]]) -> str:
    """Returns how many prices fell and rose, and how far; empty if some cannot be compared."""
    moves = [percent_change(alert.get("before"), alert.get("after")) for alert in alerts]
    percents = [move for move in moves if move]
    if len(percents) != len(alerts):
        return ""
    noun = "price" if all(alert.get("currency") for alert in alerts) else "value"
    parts = []
    for verb, shares in (
        ("fell", [-move for move in percents if move < 0]),
        ("rose", [move for move in percents if move > 0]),
    ):
        if shares:
            share = f"{int(max(shares))}" if max(shares) >= 1 else f"{max(*shares, LEAST):.1f}"
            several = len(shares) > 1
            parts.append(
                f"{len(shares)} {noun}s {verb}, up to {share} %"
                if several
                else f"1 {noun} {verb} {share} %"
            )
    return ", ".join(parts)
