"""Shops that redesign their pages, and how many fields `scraper repair` heals: `python -m
tools.redesigns --pages 1000 --seed 1`.

A redesign is a seed: on all pages of a shop the same classes are renamed, the same elements
wrapped, moved, reordered or given other tags. What machines read (JSON-LD, microdata, meta tags) is
taken out of all recorded pages, and put back by every third redesign. Each also takes one field off
its pages. A proposal is wrong if a page that it was not made from gives another value than before.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from lxml import html

from scraper.domain import Fetched, Kind
from scraper.extract.document import Document
from scraper.infra.database import dumps
from scraper.plugins.author.discovery.fields.induction import choose_fields
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.trial import PATIENT, field_reader
from scraper.plugins.author.repair import repairing
from scraper.plugins.author.repair.cases import make_case
from scraper.plugins.author.repair.records import read_page
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec
from tests.support.shops.engine_templates import ENGINES
from tests.support.shops.shop_templates import TEMPLATES, Shop

HOST = "https://shop.example"
RECORDED = 16
HELD_BACK = 9
_STRUCTURED = "//script[contains(@type, 'json')] | //meta[@property or @name or @itemprop]"
_MICRODATA = ("itemprop", "itemscope", "itemtype", "content")
_TAGS = {"div": "section", "span": "b", "p": "div", "h1": "h2", "b": "span", "strong": "em",
         "ul": "div", "li": "div", "i": "span", "main": "div", "section": "article"}  # fmt: skip
_INLINE = frozenset({"a", "b", "i", "span", "em", "strong", "img", "del", "ins", "s", "small"})
# Their children mean something by their order, or may stand nowhere else.
_FIXED = frozenset({"html", "head", "dl", "table", "tbody", "tr", "select", "ol", "nav"})
_WORDS = ("alba", "brio", "cleo", "dune", "echo", "fern", "gala", "halo", "iris", "juno", "kite")


class Redesign:
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def number(self, *words: str) -> float:
        """A number from 0 to 1, the same for the same words."""
        digest = blake2b("|".join((str(self._seed), *words)).encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "big") / 2**64

    def _name(self, name: str) -> str:
        if self.number("kept", name) < 0.1:
            return name
        number = int(self.number("name", name) * 10**6)
        return f"{_WORDS[number % 11]}-{_WORDS[number // 11 % 11]}{chr(97 + number // 121 % 26)}"

    def page(self, body: str) -> str:
        root = html.document_fromstring(body)
        elements = root.xpath("//*[not(ancestor-or-self::head | self::html | self::body)]")
        keys = {one: f"{one.tag}.{one.get('class') or ''}" for one in elements}
        for one in elements:
            for attribute in ("class", "id"):
                if one.get(attribute):
                    one.set(attribute, " ".join(map(self._name, one.get(attribute).split())))
        for one in elements:
            key = keys[one]
            if self.number("order", key) < 0.6:
                self._reorder(one, keys)
            if self.number("tag", key) < 0.4 and one.tag not in ("li", "ul"):
                one.tag = _TAGS.get(one.tag, one.tag)
            if self.number("wrap", key) < 0.4 and one.tag not in ("li", "td", "tr", "dt", "dd"):
                self._wrap(one, key)
        return html.tostring(root, encoding="unicode", doctype="<!doctype html>")

    def _reorder(self, one: Any, keys: dict[Any, str]) -> None:
        texts = [one.text, *(child.tail for child in one)]
        if one.tag in _FIXED or any(text and text.strip() for text in texts):
            return
        if any(child.tag in ("dt", "td", "li", "option", "th", "tr") for child in one):
            return
        one[:] = sorted(one, key=lambda child: self.number("at", keys.get(child, "")))

    def _wrap(self, one: Any, key: str) -> None:
        parent = one.getparent()
        if parent is None or parent.tag in ("table", "tbody", "tr", "ul", "ol", "dl", "p"):
            return
        tag = "span" if one.tag in _INLINE else "div"
        around = html.Element(tag, {"class": self._name(f"around {key}")})
        around.tail, one.tail = one.tail, None
        parent.replace(one, around)
        around.append(one)


def plain(body: str) -> str:
    """Without what machines read."""
    root = html.document_fromstring(body)
    for one in root.xpath(_STRUCTURED):
        one.getparent().remove(one)
    for one in root.iter():
        for key in _MICRODATA if isinstance(one.tag, str) else ():
            one.attrib.pop(key, None)
    return html.tostring(root, encoding="unicode", doctype="<!doctype html>")


def fetched(url: str, body: str) -> Fetched:
    return Fetched(url, 200, {"content-type": "text/html; charset=utf-8"}, body.encode())


class Trial(NamedTuple):
    """`wrong`, `missed`: sentences."""

    pages: int
    broken: int
    healed: int
    removed: int
    wrong: list[str]
    missed: list[str]


def definition(pages: list[tuple[str, str]]) -> Site:
    """What induction finds, each field by one source."""
    samples = [
        ProductSample(Document(fetched(url, body), url, PATIENT), None)
        for url, body in pages[:RECORDED]
    ]
    fields = {}
    for name, choice in choose_fields(samples).items():
        if choice.best is not None and "css" in choice.best.candidate.source:
            choice.rivals.clear()
            fields[name] = choice.definition()
    return Site.model_validate(
        {
            "name": "shop",
            "start": f"{HOST}/",
            "listing": {"products": "a"},
            "product": {"fields": fields},
        }
    )


def rows(site: Site, pages: list[tuple[str, str]]) -> list[dict[str, Any]]:
    given = [read_page(site, Kind.PRODUCT, url, fetched(url, body), ()) for url, body in pages]
    return [one["rows"][0]["data"] if one["rows"] else {} for one in given]


def trial(shop: Shop, name: str, seed: int) -> Trial:
    redesign = Redesign(seed)
    # Neighbours are alike.
    paths = sorted(shop.truth, key=redesign.number)[: RECORDED + HELD_BACK]
    whole = [(f"{HOST}{path}", shop.pages[path]) for path in paths]
    old = [(url, plain(body)) for url, body in whole]
    site = definition(old)
    known = rows(site, old)
    new = [(url, redesign.page(body)) for url, body in (whole if seed % 3 == 0 else old)]
    names = list(site.product.fields)
    removed = names[seed % len(names)]
    without = [_removed(url, body, site, removed) for url, body in old]
    gone = [(url, redesign.page(body)) for url, body in without]
    total = Counter(broken=0, healed=0)
    wrong: list[str] = []
    missed: list[str] = []
    for field in names:
        pages = gone if field == removed else new
        cases = [
            make_case(row, url, fetched(url, now), fetched(url, before))
            for row, (url, now), (_, before) in list(zip(known, pages, old, strict=True))[:RECORDED]
        ]
        if not repairing.is_broken(site, field, cases):
            continue
        total["broken"] += field != removed
        written = site.product.fields[field].model_dump(exclude_unset=True, exclude_defaults=True)
        repair = repairing.repair_field(site, field, written, cases)
        value = f"{repair.value or repair.nearest} ({repair.confidence:.2f})"
        about = f"{name}, seed {seed}: {field} {written} -> {value}"
        if repair.value is None:
            missed += [about] if field != removed else []
            continue
        reader = field_reader(field, FieldSpec.model_validate(repair.value))
        given = [
            reader(Document(fetched(url, now), url, PATIENT))[0] for url, now in pages[RECORDED:]
        ]
        pairs = [
            (json.loads(dumps(row.get(field))), before.get(field))
            for row, before in zip(given, known[RECORDED:], strict=True)
        ]
        right = all(value == before for value, before in pairs)
        total["healed"] += right and field != removed
        if not right:
            wrong.append(f"{about}: {[pair for pair in pairs if pair[0] != pair[1]][:2]}")
    return Trial(len(new), total["broken"], total["healed"], 1, wrong, missed)


def _removed(url: str, body: str, site: Site, name: str) -> tuple[str, str]:
    """The page without what the field is read of."""
    root = html.document_fromstring(body)
    css = re.split("::", site.product.fields[name].css or "none")[0]
    for one in root.cssselect(css)[:1]:
        one.drop_tree()
    return url, html.tostring(root, encoding="unicode", doctype="<!doctype html>")


def trials(pages: int, seed: int) -> Iterator[Trial]:
    """This many pages of all shops in turn."""
    shops = {name: shop() for name, shop in (TEMPLATES | ENGINES).items()}
    listed = ((name, number) for number in range(seed, sys.maxsize) for name in shops)
    for name, number in islice(listed, -(-pages // (RECORDED + HELD_BACK))):
        yield trial(shops[name], name, number)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Redesigned pages, and how many fields are healed."
    )
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for one in trials(options.pages, options.seed):
        total.update(pages=one.pages, broken=one.broken, healed=one.healed, wrong=len(one.wrong))
        for line in one.missed:
            print(f"missed: {line}", flush=True)
        for line in one.wrong:
            print(f"WRONG: {line}", flush=True)
    healed, broken = total["healed"], total["broken"]
    print(f"{total['pages']} pages: {healed} of {broken} fields healed, {total['wrong']} wrong")
    if total["wrong"] or healed < 0.95 * broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
