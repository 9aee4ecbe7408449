"""Site definitions: what is accepted, what each key means, and what is said about mistakes."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scraper.domain import Kind
from scraper.errors import DefinitionError
from scraper.plugins.author.schema import json_schema, write_schema
from scraper.rules.quality import Tolerances
from scraper.sites import functions, loader
from scraper.sites.definition import Site
from scraper.sites.grammar import scalars, selectors
from scraper.sites.quality_keys import read_tolerances

ROOT = Path(__file__).parents[3]
MINIMAL = "start: https://shop.example/\nlisting: {products: a.card}\nproduct: {fields: {title: {css: h1, required: true}}}\n"


@pytest.mark.parametrize("allowed", [[], ["shop"], ["evil.inner", "evi"]])
def test_a_module_that_is_not_allowed_is_never_imported(
    allowed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "a.yaml"
    file.write_text(
        MINIMAL
        + "browser: {setup: 'evil:x'}\nqueue: browser\nlogin: {function: 'evil:x', logged_out: {css: 'form#login'}}\n"
    )
    problems = loader.check_functions([file], allowed)
    assert [problem.partition(" 'evil' may not be imported: ")[0] for problem in problems] == [
        *(f"{file}:6: login.function:", f"{file}:4: browser.setup:"),
    ]
    assert "SCRAPER_SITE_FUNCTIONS=" in problems[0]
    with pytest.raises(DefinitionError, match="may not be imported"):
        loader.load_file(file, allowed)
    for use in (functions.resolve_function, functions.read_function_source.__wrapped__):
        with suppress(ImportError):
            assert use("evil:x", allowed) is None
    file.write_text(file.read_text() + "enabled: false\n")
    assert loader.check_functions([file], allowed) == []
    assert loader.load_file(file, allowed).enabled is False
    assert not (tmp_path / "ran").exists() and "evil" not in sys.modules


def load(text: str, path: str = "sites/books.yaml") -> Site:
    return loader.load_text(text, path)


def problems(text: str) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        load(text)
    return caught.value.problems


def only_problem(text: str) -> str:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


def with_product(fields: str) -> str:
    return f"start: https://shop.example/\nlisting: {{products: a}}\nproduct:\n  fields:\n    {fields}\n"


def test_a_minimal_definition_has_the_documented_defaults() -> None:
    site = load(MINIMAL)
    assert site.name == "books"
    assert site.start == ("https://shop.example/",)
    assert (site.queue, site.region, site.priority_number) == ("datacenter", None, 5)
    assert (site.rate_per_s, site.concurrency, site.revisit_s) == (4.0, 4, 0.0)
    assert (site.robots, site.allow_private, site.enabled) == (True, False, True)
    assert (site.schedule, site.timezone, site.user_agent) == (None, "UTC", None)
    assert (site.limits.listings, site.limits.products, site.limits.attempts, site.limits.body) == (
        10_000,
        1_000_000,
        None,
        None,
    )
    assert site.allowed_hosts == {"shop.example"}


@pytest.mark.parametrize("file", sorted(ROOT.glob("sites/*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_valid_and_have_no_schedule(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    assert loader.check_files([file]) == []
    assert loader.check_functions([file], ["sites.function_shop"]) == []
    assert loader.load_file(file).schedule is None


def test_the_examples_have_names_of_their_own() -> None:
    assert loader.check_files([ROOT / "sites"]) == []


@pytest.mark.parametrize("file", sorted(ROOT.glob("sites/*.yaml")), ids=lambda path: path.name)
def test_a_definition_survives_json(file: Path) -> None:
    site = loader.load_file(file)
    again = Site.model_validate_json(site.model_dump_json())
    assert again == site
    assert again.content_hash == site.content_hash
    assert Site.model_validate(json.loads(json.dumps(site.model_dump(mode="json")))) == site


def test_the_content_hash_follows_the_content_alone() -> None:
    site = load(MINIMAL)
    assert site.content_hash == load("# a comment\n" + MINIMAL).content_hash
    changed = site.model_copy(update={"rate": "1/s"})
    assert changed.content_hash != site.content_hash
    assert len(site.content_hash) == 64


def test_yaml_means_what_people_mean() -> None:
    """YAML 1.1 reads no as false, 12:30 as 750, 010 as 8 and 2025-01-01 as a date."""
    site = load(
        with_product(
            "country: {css: p, map: {NO: Norway, 12:30: noon, 010: ten, 2025-01-01: new year, 1: one}}"
        )
    )
    assert site.product.fields["country"].map == {
        "NO": "Norway",
        "12:30": "noon",
        "010": "ten",
        "2025-01-01": "new year",
        "1": "one",
    }
    assert load(MINIMAL + "robots: no\n").robots is False
    assert load(MINIMAL + "robots: obey\n").robots is True


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("none", ("none", 0.0, 100)),
        ("datacenter", ("datacenter", 0.0, 100)),
        ("residential", ("residential", 600.0, 100)),
        ("{pool: residential, sticky: 30m}", ("residential", 1800.0, 100)),
        ("{pool: residential, sticky: 0}", ("residential", 0.0, 100)),
        ("{pool: datacenter, requests: 7}", ("datacenter", 600.0, 7)),
    ],
)
def test_proxies_of_a_site_and_of_its_kinds(text: str, meant: tuple[str, float, int]) -> None:
    site = load(MINIMAL + f"proxy: {text}\n")
    use = site.proxy_of(Kind.PRODUCT)
    assert (use.pool, use.sticky_s, use.sticky_requests) == meant
    assert Site.model_validate_json(site.model_dump_json()) == site
    own = load(MINIMAL.replace("{products: a.card}", f"{{products: a.card, proxy: {text}}}"))
    assert [own.proxy_of(kind).pool for kind in Kind] == [meant[0], meant[0], "none"]


def test_tolerances_of_a_crawl() -> None:
    title = frozenset({"title"})
    assert load(MINIMAL).tolerances == Tolerances(0.5, 0.8, 0.1, 0.25, 0.1, 0, {}, title, title)
    site = load(
        MINIMAL
        + "quality: {products: 0.3, fill: 95%, mistyped: 5 %, products_floor: 100, accept_after: 3}\n"
    )
    assert (
        site.tolerances == Tolerances(0.3, 0.95, 0.05, 0.25, 0.1, 100, {}, title, title)
        and site.quality.accept_after == 3
    )
    assert Site.model_validate_json(site.model_dump_json()) == site
    floor = load(MINIMAL.replace("css: h1", "css: h1, floor: 99.5%"))
    assert floor.tolerances.floors == {"title": 0.995}
    for one in (site, floor):
        assert read_tolerances(one.model_dump(mode="json")) == one.tolerances
    none = load(MINIMAL + "quality: none\n").tolerances
    assert (none.products, none.fill, none.mistyped, none.distinct, none.changed) == (0, 0, 1, 0, 1)


@pytest.mark.parametrize(
    ("line", "at", "expected"),
    [
        ("quality: {fill: 80}", "quality.fill", "from `0%` to `100%`"),
        ("quality: {fill: most}", "quality.fill", "as in `80%` or `0.8`"),
        ("quality: {accept_after: 1}", "quality.accept_after", "2"),
        ("quality: {fil: 80%}", "quality.fil", "did you mean `fill`?"),
        ("quality: strict", "quality", "fix: `none`, or"),
        ("nmae: x", "nmae", "did you mean `name`?"),
        ("pagination: x", "pagination", "did you mean `listing.pages`?"),
        ("start_urls: [x]", "start_urls", "did you mean `start`?"),
        ("pages: {param: page}", "pages", "did you mean `listing.pages`?"),
        ("hosts: https://x.example/", "hosts", "without https://"),
        ("queue: Fast Lane", "queue", "small letters"),
        ("queue: coordinator", "queue", "another name"),
        ("queue: residential.eu", "queue", "`region:`"),
        ("region: EU", "region", "such as `eu`"),
        ("country: eu", "country", "did you mean `region`?"),
        ("priority: urgent", "priority", "high, normal, low"),
        ("priority: 10", "priority", "from 0, last, to 9, first"),
        ("routes: {match: x, queue: y}", "routes", "list"),
        ("routes: [{match: '(', queue: x}]", "routes.0.match", "balance the brackets"),
        ("routes: [{priority: 9}]", "routes.0", "add `match:`"),
        (
            "routes: [{match: x, priority: 9}, {match: y}]",
            "routes.1",
            "add queue, region or priority",
        ),
        ("routes: [{match: x, priority: soon}]", "routes.0.priority", "high, normal, low"),
        ("routes: [{match: x, region: E U}]", "routes.0.region", "such as `eu`"),
        ("routes: [{match: x, queue: Fast}]", "routes.0.queue", "small letters"),
        ("routes: [{match: x, prio: high}]", "routes.0.prio", "did you mean `priority`?"),
        (
            "routes: [{match: x, priority: 1, country: y}]",
            "routes.0.country",
            "did you mean `region`?",
        ),
        ("schedule: 6am", "schedule", "a schedule has 5"),
        ('schedule: "0 25 * * *"', "schedule", "bad hour"),
        ('schedule: "0 0 30 2 *"', "schedule", "day-of-month"),
        ("timezone: Europe/Berlni", "timezone", "`Europe/Berlin`"),
        ("timezone: ../../etc/passwd", "timezone", "IANA"),
        ("proxy: datacentre", "proxy", "'none', 'datacenter' or 'residential'"),
        ("proxy: {pool: residential, sticky: 10x}", "proxy.sticky", "`12h`"),
        ("proxy: {pool: none, requests: 5}", "proxy.pool", "sticky and requests need a proxy"),
        ("proxies: residential", "proxies", "did you mean `proxy`?"),
        ("rate: fast", "rate", "`60/m`"),
        ("rate: 0", "rate", "enabled: false"),
        ("concurrency: 0", "concurrency", "greater than or equal to 1"),
        ("concurrency: many", "concurrency", "whole number"),
        ("revisit: a week", "revisit", "`12h`"),
        ("revisit: [7d]", "revisit", "`{min: 6h, max: 14d}`"),
        ("revisit: {min: 6h}", "revisit", "`max` is missing"),
        ("revisit: {min: 6h, max: 14d, mix: 1d}", "revisit.mix", "did you mean"),
        ("revisit: {min: soon, max: 14d}", "revisit.min", "`12h`"),
        ("revisit: {min: 14d, max: 6h}", "revisit.min", "the other way round"),
        ("revisit: {min: 0, max: 6h}", "revisit.min", "a minute or more"),
        ("conditional: maybe", "conditional", "`true`, `false`"),
        ("conditional: [30d]", "conditional", "`true`, `false`"),
        ("headers: {If-None-Match: x}", "headers", "set by the crawler"),
        ("robots: maybe", "robots", "true or false"),
        ("limits: {listngs: 5}", "limits.listngs", "did you mean `listings`?"),
        ("headers: {Host: x}", "headers", "set by the crawler"),
        ('headers: {X-A: "a\\r\\nB: c"}', "headers", "one line"),
        ("headers: {Content-Length: 3}", "headers", "set by the crawler"),
        ("user_agent: 'Ünicode'", "user_agent", "ASCII"),
        ("trailing_slash: drop", "trailing_slash", "'keep' or 'strip'"),
        ("sitemap: {products: x}", "sitemap", "`urls` is missing"),
        ("title: {a: b}", "title", "must be a text"),
    ],
)
def test_a_mistake_is_shown_with_its_line_its_key_and_a_fix(
    line: str, at: str, expected: str
) -> None:
    found = only_problem(MINIMAL + line + "\n")
    assert found.startswith(f"sites/books.yaml:4: {at}: "), found
    assert expected in found
    assert "(fix: " in found


@pytest.mark.parametrize(
    ("field", "at", "expected"),
    [
        ("title: 'a[href'", "title", "bad CSS selector"),
        ("title: 'h1::html'", "title", "::text"),
        ("title: //h1", "title", "write `xpath:`"),
        ("title: {xpath: '//h1['}", "title.xpath", "bad XPath"),
        ("title: {xpath: 'nonsense(.)'}", "title.xpath", "bad XPath"),
        ("title: {css: h1, regex: '('}", "title.regex", "balance the brackets"),
        ("title: {css: h1, requierd: true}", "title.requierd", "`required`"),
        ("title: {css: h1, type: thing}", "title.type", "one of text, int"),
        ("title: {css: h1, xpath: //h1}", "title.xpath", "`any:`"),
        ("title: {type: text}", "title", "no source"),
        ("title: {url: x, regex: y}", "title.regex", "url is itself"),
        ("title: {jsonld: Product}", "title.jsonld", "Product.name"),
        ("title: {jsonld: 'a..b'}", "title.jsonld", "bad JSON-LD path"),
        ("title: {css: h1, when: x}", "title.when", "`type: bool`"),
        ("title: {css: h1, split: x}", "title.split", "`type: list`"),
        ("title: {css: h1, currency: EUR}", "title.currency", "`type: price`"),
        ("title: {css: h1, type: price, currency: euro}", "title.currency", "ISO 4217"),
        ("title: {css: h1, type: int, default: x}", "title.default", "is not of type int"),
        ("title: {css: h1, required: true, default: x}", "title.default", "remove one"),
        ("title: {any: [h1], css: h2}", "title.css", "move it into the list"),
        ("title: {any: [{css: h1, typ: x}]}", "title.any.0.typ", "unknown key"),
        ("Title: h1", "Title", "small letters"),
        ("id: h1", "id", "`product.id`"),
        ("title: 3", "title", "mapping of keys"),
    ],
)
def test_a_fields_mistake(field: str, at: str, expected: str) -> None:
    found = only_problem(with_product(field))
    assert found.startswith(f"sites/books.yaml:5: product.fields.{at}: "), found
    assert expected in found
    assert "(fix: " in found


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        ("{css: li, url: page.html}", "{page}"),
        ("{css: li}", "url and param"),
        ("{url: 'p{page}', param: p}", "url and param"),
        ("{url: 'p{page}', last: 0}", "before the first page"),
        ("{css: li, url: 'p{page}', last: 9}", "read from the page already"),
        ("{url: 'p{page}', per_page: 9}", "no number to divide"),
        ("{css: li, regex: 'of (', param: p}", "bad regular expression"),
    ],
)
def test_a_paginations_mistake(pages: str, expected: str) -> None:
    text = MINIMAL.replace("{products: a.card}", f"{{products: a.card, pages: {pages}}}")
    found = only_problem(text)
    assert found.startswith("sites/books.yaml:2: listing.pages"), found
    assert expected in found


def test_all_problems_of_a_file_are_shown_at_once_in_order() -> None:
    found = problems(
        "start: shop.example\nrate: fast\nlisting: {products: 'a['}\n"
        "product: {fields: {a: {type: x}, B: p}}\nfoo: 1\nrate: 1\n"
    )
    assert [line.split(":")[1] for line in found] == ["1", "2", "3", "4", "4", "5", "6"]
    assert any("written twice, first in line 2" in line for line in found)


def test_a_price_and_a_currency_field_cannot_share_a_name() -> None:
    text = with_product("price: {css: p, type: price}\n    price_currency: b")
    assert only_problem(text).startswith(
        "sites/books.yaml:6: product.fields.price_currency: the price price already gives"
    )


@pytest.mark.parametrize(
    ("slip", "fix"),
    [
        ("    price: #price", 'starts a comment unless it is quoted: "#price"'),
        ("    price: [.a, .b]", 'fix: `{any: [".price-new", ".price"]}`'),
        ("    price: {css: [.a, .b]}", "put alternatives under `any:`"),
        ("    price: {css:.p, type: price}", "a space after the colon: `css: .p`"),
        ("    price:.p", "a space after each colon"),
        ("    price: .p:first", "`:first` is not needed"),
        ("    price: {css: .p, type: number}", "fix: `decimal`"),
        ("  title: h1", "put fields under `fields:`, as `fields: {title: …}`"),
        ("start: [http://shop.example/a?page=1]", "quote a value within [ ] or { } that holds ?"),
        ("listing: a.card", "`listing: {products: 'a.card'}`"),
    ],
)
def test_a_newcomers_slip_gets_the_right_fix(slip: str, fix: str) -> None:
    lines = ["start: https://shop.example/", "listing: {products: a}", "product:", "  fields:"]
    lines.append("    name: h1")
    key = slip.partition(":")[0]
    kept = [line for line in lines if line.partition(":")[0] != key]
    text = "\n".join([slip, *kept] if key in ("start", "listing") else [*kept, slip])
    (problem,) = problems(text + "\n")
    assert fix in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("- a", "is not a mapping"),
        ("a: b: c", 'quote a value that holds ": "'),
        ("a:\n\tb: c", "never with tabs"),
        ("schedule: */5 * * * *", "quote a value that starts with *"),
        ('a: "\\d"', "single quotes"),
        ("a: [1, 2", "close"),
        ("a: !!python/object:os.system {}", "fix"),
        ("a: &x [*x]", "too deep"),
    ],
)
def test_yaml_that_cannot_be_read(text: str, expected: str) -> None:
    found = problems(text)
    assert any(expected in line for line in found), found
    assert all(line.startswith("sites/books.yaml:") for line in found)


def test_a_yaml_bomb_is_harmless() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "too deep or too large" in only_problem("\n".join(rows))


def test_files_that_are_not_text(tmp_path: Path) -> None:
    binary, latin, large = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml"
    binary.write_bytes(b"\x00\x01")
    latin.write_bytes(b"name: x\ntitle: caf\xe9\n")
    large.write_bytes(b"# " + b"x" * 1_000_001)
    found = loader.check_files([binary, latin, large, tmp_path / "none.yaml"])
    assert [line.removeprefix(f"{tmp_path}/").split(" (")[0] for line in found] == [
        "a.yaml:1: not a text file",
        "b.yaml:2: not UTF-8",
        "c.yaml:1: larger than 1 MB",
        "none.yaml:1: no such file",
    ]


def test_two_files_cannot_share_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("title: x\nname: one\n" + MINIMAL)
    (tmp_path / "b.yaml").write_text("title: x\nname: one\n" + MINIMAL)
    assert (
        f"{tmp_path}/b.yaml:2: name: 'one' is also the name of {tmp_path}/a.yaml"
        in loader.check_files([tmp_path])[0]
    )
    with pytest.raises(DefinitionError):
        loader.load_folder(tmp_path)


def test_functions_are_imported_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shopmod.py").write_text(
        "from os import system\ndef listing(page):\n    return []\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "a.yaml"
    for name, expected in (
        ("shopmod:listing", None),
        ("shopmod:listin", "did you mean 'listing'?"),
        ("nowhere_at_all:x", "cannot import 'nowhere_at_all'"),
        ("shopmod:system", "not defined in 'shopmod' but imported there"),
    ):
        file.write_text(MINIMAL.replace("{products: a.card}", f"\n  function: {name}"))
        assert loader.check_files([file]) == []
        found = loader.check_functions([file], ["shopmod", "nowhere_at_all"])
        assert (
            (found == [])
            if expected is None
            else (f"{file}:3: listing.function: " in found[0] and expected in found[0])
        )


def test_start_or_sitemap_is_needed_and_a_listing_for_start() -> None:
    assert "give `start:` or `sitemap:`" in only_problem("product: {fields: {a: b}}\n")
    assert "`listing:` is missing" in only_problem(
        "start: https://x.example/\nproduct: {fields: {a: b}}\n"
    )
    assert load("sitemap: https://x.example/s.xml\nproduct: {fields: {a: b}}\n").sitemap is not None


def test_hosts_are_those_of_start_and_sitemap_and_more() -> None:
    site = load(
        MINIMAL.replace(
            "https://shop.example/", "[https://www.shop.example/, http://127.0.0.1:8000/]"
        )
        + "hosts: cdn.example\n"
    )
    assert site.allowed_hosts == {"shop.example", "127.0.0.1:8000", "cdn.example"}
    assert site.owns("https://m.shop.example/x")
    assert not site.owns("http://127.0.0.1:8001/")


def test_private_addresses_are_for_own_hosts_or_for_networks() -> None:
    site = load(
        MINIMAL.replace("start:", "hosts: [Intern.example, 'cdn.example:8443']\nstart:")
        + "allow_private: true\n"
    )
    assert site.private_hosts == {
        *(("shop.example", 80), ("shop.example", 443)),
        *(("intern.example", None), ("cdn.example", 8443)),
    }
    assert load(MINIMAL).private_hosts == frozenset()
    listed = load(MINIMAL + "allow_private: 10.1.2.3\n")
    assert (listed.allow_private, listed.private_hosts) == (("10.1.2.3/32",), frozenset())
    assert Site.model_validate(listed.model_dump(mode="json")) == listed


@pytest.mark.parametrize(
    "written", ["[10.0.0.0/33]", "[]", "3", "{a: 1}", "[intern]", "10.1.0.1/16", "yes"]
)
def test_what_is_not_a_network_is_reported_with_its_line(written: str) -> None:
    problem = only_problem(MINIMAL + f"allow_private: {written}\n")
    assert problem.startswith("sites/books.yaml:4: allow_private: ") and "fix" in problem


def warned(extra: str) -> str:
    return " | ".join(loader.find_warnings(load(MINIMAL + extra)))


@pytest.mark.parametrize(
    ("schedule", "revisit", "fix"),
    [
        ("0 6 * * *", None, None),
        ("0 6 * * *", "12h", None),
        ("0 6 * * *", "{min: 12h, max: 14d}", None),
        ("0 6 * * *", "7d", "revisit: 12h"),
        ("0 6 * * *", "{min: 2d, max: 14d}", "revisit: 12h"),
        # A page read at 06:30:05 is not a week old at 06:30:00.
        ("30 6 * * 1", "7d", "revisit: 84h"),
        ("*/5 * * * *", "5m", "revisit: 2m"),
        (None, "7d", None),
    ],
)
def test_a_revisit_that_eats_the_schedule(
    schedule: str | None, revisit: str | None, fix: str | None
) -> None:
    text = MINIMAL + (f'schedule: "{schedule}"\n' if schedule else "")
    found = loader.find_skipped_crawls(load(text + (f"revisit: {revisit}\n" if revisit else "")))
    assert [key for key, _ in found] == (["revisit"] if fix else [])
    assert fix is None or fix in found[0][1]


def test_warnings() -> None:
    assert "allow_private" not in warned("allow_private: true\n")
    assert "may reach 10.0.0.0/8, fd00::/8" in warned("allow_private: [10.0.0.0/8, 'fd00::/8']\n")
    assert "robots.txt is ignored" in warned("robots: false\n")
    assert "no field is `required`" in " ".join(
        loader.find_warnings(load(with_product("title: h1")))
    )
    priced = with_product("price: {css: .price, type: price, required: true}")
    assert "price is `required`: a product that shows no price" in " ".join(
        loader.find_warnings(load(priced))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", 604_800.0),
        ("12h", 43_200.0),
        ("30m", 1800.0),
        ("1.5h", 5400.0),
        ("0", 0.0),
        ("0s", 0.0),
        ("90", 90.0),
        ("2 w", 1_209_600.0),
    ],
)
def test_durations(text: str, expected: float) -> None:
    assert scalars.parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60/m", 1.0),
        ("2/s", 2.0),
        ("3600/h", 1.0),
        ("2", 2.0),
        ("0.5", 0.5),
        ("90/min", 1.5),
        ("unlimited", None),
    ],
)
def test_rates(text: str, expected: float | None) -> None:
    assert scalars.parse_rate(text) == expected


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(allow_nan=False),
            st.text(max_size=20),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.dictionaries(
                st.sampled_from(
                    [*Site.model_fields, "css", "fields", "products", "pages", "url", "any", "x"]
                ),
                inner,
                max_size=6,
            ),
        ),
        max_leaves=25,
    )
)
def test_any_json_is_a_definition_or_has_problems(data: Any) -> None:
    try:
        load(json.dumps(data))
    except DefinitionError as error:
        assert error.problems
        assert all(line.startswith("sites/books.yaml:") for line in error.problems)


def test_the_schema_file_is_up_to_date(tmp_path: Path) -> None:
    write_schema(tmp_path / "schema.json")
    # Releases of pydantic indent it in other ways.
    written, kept = (
        json.loads(path.read_text())
        for path in (tmp_path / "schema.json", ROOT / "sites/schema.json")
    )
    assert written == kept, "run: scraper sites schema -o sites/schema.json"


def test_the_schema_knows_every_key_and_the_shorthands() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(Site.model_fields)
    assert schema["additionalProperties"] is False
    auto, mapping = schema["$defs"]["ProductPage"]["properties"]["fields"]["anyOf"]
    assert auto["const"] == "auto"
    (field,) = mapping["patternProperties"].values()
    assert "string" in [one.get("type") for one in field["anyOf"]]


def test_no_pattern_counts_letters_of_all_scripts() -> None:
    """To compile one would take every command 50 ms."""
    schema = json.dumps(json_schema())
    patterns = [json.loads(text) for text in re.findall(r'"pattern": ("[^"]*")', schema)]
    assert any(r"\w" in pattern for pattern in patterns)
    assert [pattern for pattern in patterns if re.search(r"\\w[^\]]*\]?\{", pattern)] == []


@pytest.mark.parametrize(
    "text",
    [
        block
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        if "product:\n" in block and "start" in block
    ],
)
def test_the_documented_examples_are_valid(text: str) -> None:
    assert load(text).product.fields


# The client that a site asks for.


def test_who_we_look_like_is_ourselves_unless_the_site_says_more() -> None:
    site = load(MINIMAL)
    assert (site.impersonate, site.http2, site.cookies) == (None, False, "page")
    site = load(MINIMAL + "impersonate: firefox\nuser_agent: browser\nhttp2: true\ncookies: keep\n")
    assert (site.impersonate, site.http2, site.cookies) == ("firefox", True, "keep")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("impersonate: netscape\n", "impersonate"),
        (
            "impersonate: chrome\nuser_agent: mybot\n",
            "user_agent: does not go with `impersonate: chrome`",
        ),
        (
            "cookies: keep\nproxy: residential\n",
            "cookies: with a proxy, cookies belong to the identity",
        ),
    ],
)
def test_what_does_not_go_together_is_said(more: str, says: str) -> None:
    problem = only_problem(MINIMAL + more)
    assert says in problem and "fix" in problem


@pytest.mark.parametrize("pattern", [r"Only (\d+) left", "In stock", r"/p/(\d+)-", "[ab]+c", "a|b"])
def test_a_pattern_that_repeats_one_thing_is_searched_without_a_clock(pattern: str) -> None:
    text = "a" * selectors.QUICK_CHARS
    assert selectors.search_timeout_s(selectors.compile_regex(pattern), text) is None
    assert (
        selectors.search_timeout_s(selectors.compile_regex(pattern), text + "a")
        == selectors.REGEX_TIMEOUT_S
    )


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "a*a*b", r"(a+)\1b", "(?:a|aa)+b", "a{1,9}b", "(?R)?", "(a?b?)c", "(?:ab){e<=2}"],
)
def test_a_pattern_that_may_take_long_is_searched_with_one(pattern: str) -> None:
    assert (
        selectors.search_timeout_s(selectors.compile_regex(pattern), "a")
        == selectors.REGEX_TIMEOUT_S
    )


def test_a_browser_block_says_what_it_does_and_is_checked() -> None:
    base = {"name": "shop", "start": "http://shop.example/", "listing": {"products": "a"}}
    product = {"fields": {"stock": {"response": "api", "path": "$.offers[0].stock"}}}
    site = Site.model_validate({
        **base, "queue": "browser", "product": product,
        "browser": {
            "block": "none", "click": "button.more", "wait": "3s", "viewport": "800x600", "responses": {"api": "/api/"},
        },
    })  # fmt: skip
    assert site.browser is not None and site.browser.block == () and site.browser.size == (800, 600)
    assert (
        site.browser.click is not None and site.browser.click.max == 20 and site.browser.wait_s == 3
    )

    def problems(**more: object) -> str:
        with pytest.raises(ValidationError) as caught:
            Site.model_validate({**base, "product": {"fields": {"title": "h1"}}, **more})
        return str(caught.value)

    assert "no page goes to a browser" in problems(browser={"scroll": 3})
    assert "no response is called 'api'" in problems(queue="browser", product=product)
    assert "is not a viewport" in problems(queue="browser", browser={"viewport": "big"})
    assert "needs a path in the response" in problems(
        product={"fields": {"x": {"response": "api"}}}
    )
    assert "path is only for `response`" in problems(
        product={"fields": {"x": {"css": "h1", "path": "a.b"}}}
    )
    Site.model_validate(
        {
            **base,
            "product": {"fields": {"title": "h1"}},
            "escalate": "browser",
            "browser": {"scroll": 3},
        }
    )
