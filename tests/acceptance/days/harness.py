"""Crawls the honest shop day by day, compares what is stored with what is true, and counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.results.products import parse_data
from scraper.settings import Settings
from scraper.sites.loader import load_text
from tests.acceptance.days.calendar import Day, pass_night
from tests.acceptance.days.shop import Shop, answer
from tests.acceptance.lies.harness import broker_of, verdict
from tests.support.shops.odd_shop import OddShop

NAME = "house"
# A product's page, or a product's field there.
Fact = tuple[str, str]
FOR_SALE = "for sale"
# What the shop says during a crawl: two values if a value changes while the crawl runs.
Truth = dict[Fact, set[object]]
# A product that is gone is missed twice before it is delisted, which is not late.
DELISTS = 1

STORED = sa.text("""
SELECT p.url, CAST(p.data AS text) AS data FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND p.delisted_at IS NULL
""")
CRAWL = sa.text("SELECT status, suspect, note, reasons FROM crawls WHERE id = :id")


@dataclass
class DayResult:
    """What came of one day's changes. `late` counts the changes that a later crawl published, by
    how many crawls later; those that no crawl did are under None."""

    name: str
    changes: Counter[str] = field(default_factory=Counter)
    published: Counter[str] = field(default_factory=Counter)
    late: Counter[int | None] = field(default_factory=Counter)
    late_fields: Counter[str] = field(default_factory=Counter)
    verdict: str = "0"
    reasons: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    repeated: int = 0


class Ledger:
    """Which true facts the crawler has not published yet, and since which day."""

    def __init__(self) -> None:
        self.truth: Truth = {}
        self.ever: Truth = {}
        self.stored: dict[Fact, object] = {}
        self.waiting: dict[Fact, int] = {}
        self.results: list[DayResult] = []

    def note_changes(self, truth: Truth) -> None:
        """Notes what is true now, before that day's crawl. While a product is new, its
        values are not counted as changes of their own."""
        day, result = len(self.results) - 1, self.results[-1]
        for fact in self.truth:
            if fact[1] == FOR_SALE:
                truth.setdefault(fact, {False})
        for fact in self.truth.keys() | truth.keys():
            if truth.get(fact) == self.truth.get(fact):
                continue
            if (since := self.waiting.pop(fact, None)) is not None:
                self._note_late(fact, since, None)
            path, name = fact
            news = name != FOR_SALE and (path, FOR_SALE) not in self.stored
            if fact in truth and not news and self._value(fact) not in truth[fact]:
                result.changes[name] += 1
                self.waiting[fact] = day
        self.truth = truth

    def note_published(self, stored: dict[Fact, object]) -> None:
        """Notes what is stored after that day's crawl."""
        day, result = len(self.results) - 1, self.results[-1]
        self.stored = stored
        for fact, allowed in self.truth.items():
            self.ever.setdefault(fact, set()).update(allowed)
        for fact, since in list(self.waiting.items()):
            if self._value(fact) not in self.truth[fact]:
                continue
            del self.waiting[fact]
            grace = DELISTS if fact[1] == FOR_SALE and False in self.truth[fact] else 0
            if day - since <= grace:
                self.results[since].published[fact[1]] += 1
            else:
                self._note_late(fact, since, day - since - grace)
        for fact, value in stored.items():
            if value not in self.ever.get(fact, {None}) and fact[1] != FOR_SALE:
                result.wrong.append(f"{fact[0]} {fact[1]}: {value!r}")
            elif fact[1] == FOR_SALE and fact not in self.ever:
                result.wrong.append(f"{fact[0]} is not a product")
        result.lost = [
            path
            for (path, name), allowed in self.truth.items()
            if name == FOR_SALE and allowed == {True} and (path, name) not in stored
        ]

    def close(self) -> None:
        """What still waits was never published, unless it is too early to say."""
        for fact, since in self.waiting.items():
            if since < len(self.results) - 1 - DELISTS:
                self._note_late(fact, since, None)
            else:
                self.results[since].changes[fact[1]] -= 1

    def _note_late(self, fact: Fact, since: int, late: int | None) -> None:
        self.results[since].late[late] += 1
        self.results[since].late_fields[fact[1]] += 1

    def _value(self, fact: Fact) -> object:
        return self.stored.get(fact, False if fact[1] == FOR_SALE else None)


def truth_of(shop: Shop, fields: Sequence[str]) -> Truth:
    """What is true of each product at this moment."""
    truth: Truth = {}
    for item in shop.items.values():
        truth[item.path, FOR_SALE] = {True}
        values = shop.truth(item)
        for name in fields:
            truth[item.path, name] = {values[name]}
        if item.other_price is not None:
            truth[item.path, "price"].add(item.other_price)
    return truth


def run(
    engine: sa.Engine, settings: Settings, days: Sequence[Day], products: int, seed: str
) -> list[DayResult]:
    """Crawls the shop once as it is, and once after each day."""
    random = Random(f"{seed} days")
    ledger = Ledger()
    with OddShop() as server:
        shop = Shop.of(products, random, server.url("/"))
        server.otherwise = lambda target: answer(shop, target)
        fields = _define_site(engine, settings, server.url("/"))
        for number, day in enumerate([Day("the first crawl"), *days]):
            ledger.results.append(DayResult(day.name))
            if number:
                shop.end_flash_sale()
                pass_night(shop, quiet=day.act is None)
                if day.act is not None:
                    day.act(shop)
            before = truth_of(shop, fields)
            ledger.note_changes(before)
            asked = len(server.requests)
            _crawl(engine, settings, ledger.results[-1])
            targets = Counter(target for _, _, target in server.requests[asked:])
            ledger.results[-1].requests = targets.total()
            ledger.results[-1].repeated = targets.total() - len(targets)
            _add_values(ledger.truth, truth_of(shop, fields))
            with engine.connect() as connection:
                ledger.note_published(_read_stored(connection, server.url()))
    ledger.close()
    return ledger.results


def _define_site(engine: sa.Engine, settings: Settings, url: str) -> list[str]:
    """Stores the definition that `scraper new` writes, without its limit of the rate. Returns the
    names under which values are stored."""
    result = CliRunner().invoke(main, ["new", url, NAME, "--rate", "1000/s"])
    assert result.exit_code == 0, result.output
    path = settings.sites_dir / f"{NAME}.yaml"
    text = re.sub(r"^rate: \S+", "rate: unlimited", path.read_text(), flags=re.M)
    site = load_text(text + "\nrevisit: 0\n", path)
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])
    names = []
    for name, spec in site.product.all_fields.items():
        names += [name, f"{name}_currency"] if spec.type == "price" else [name]
    return names


def _crawl(engine: sa.Engine, settings: Settings, result: DayResult) -> None:
    with broker_of(engine, settings) as broker:
        crawl = plan.open_now(engine, NAME, refetch=True)
        broker.send(crawl.messages)
        broker.run(rounds=4000)
    with engine.connect() as connection:
        row = connection.execute(CRAWL, {"id": crawl.crawl_id}).one()
    result.verdict = verdict(row)
    result.reasons = [
        f"{reason.get('field') or 'crawl'}: {reason['text']}" for reason in row.reasons or ()
    ] + ([row.note] if row.note else [])


def _add_values(truth: Truth, later: Truth) -> None:
    """Adds what has become true since."""
    for fact, values in later.items():
        truth[fact].update(values)


def _read_stored(connection: sa.Connection, url: str) -> dict[Fact, object]:
    stored: dict[Fact, object] = {}
    for row in connection.execute(STORED, {"site": NAME}):
        path = row.url.removeprefix(url)
        assert (path, FOR_SALE) not in stored, f"{path} is stored twice"
        stored[path, FOR_SALE] = True
        stored |= {(path, name): value for name, value in parse_data(row.data).items()}
    return stored


@dataclass
class Totals:
    """The days after the first crawl, in all."""

    results: Sequence[DayResult]

    @property
    def changes(self) -> int:
        return sum(result.changes.total() for result in self.results[1:])

    @property
    def published(self) -> int:
        return sum(result.published.total() for result in self.results[1:])

    @property
    def on_time(self) -> float:
        return self.published / max(1, self.changes)

    @property
    def false_alarms(self) -> int:
        return sum(result.verdict != "0" for result in self.results)

    @property
    def lost(self) -> set[str]:
        """The products that two crawls in a row did not have."""
        pairs = zip(self.results, self.results[1:], strict=False)
        return {path for one, other in pairs for path in {*one.lost} & {*other.lost}}

    @property
    def wrong(self) -> list[str]:
        return [example for result in self.results for example in result.wrong]

    @property
    def repeated(self) -> float:
        """Which share of the requests asked for a page again."""
        asked = sum(result.requests for result in self.results[1:])
        return sum(result.repeated for result in self.results[1:]) / max(1, asked)

    @property
    def repeated_in_one(self) -> float:
        """The largest such share of one crawl."""
        return max(_share(result) for result in self.results[1:])

    @property
    def late(self) -> Counter[int | None]:
        return sum((result.late for result in self.results[1:]), Counter())


def table(results: Sequence[DayResult]) -> str:
    """For people."""
    head = f"{'day':3} {'what happens':34} {'prices':>11} {'others':>11} {'late':>20} {'lost':>4}"
    lines = [f"{head} {'wrong':>5} {'again':>9} exit"]
    for number, result in enumerate(results):
        lines += _show_day(number, result)
    totals = Totals(results)
    lines += [
        f"{totals.changes:,} true changes; published by the crawl that saw them: "
        f"{totals.published:,} ({totals.on_time:.1%}); late: {_show_late(totals.late) or 'none'}",
        f"crawls that raised an alarm: {totals.false_alarms} of {len(results)}; products lost: "
        f"{len(totals.lost)}; wrong values: {len(totals.wrong)}; requests repeated: "
        f"{totals.repeated:.1%} of all, at most {totals.repeated_in_one:.1%} of a crawl",
    ]
    return "\n".join(lines)


def _share(result: DayResult) -> float:
    return result.repeated / max(1, result.requests)


def _show_day(number: int, result: DayResult) -> Iterator[str]:
    prices, others = (0, 0), (0, 0)
    for name, changes in result.changes.items():
        pair = result.published[name], changes
        if name in ("price", "list_price"):
            prices = prices[0] + pair[0], prices[1] + pair[1]
        else:
            others = others[0] + pair[0], others[1] + pair[1]
    again = f"{result.repeated}/{result.requests}"
    yield (
        f"{number:3} {result.name:34} {_show_pair(prices):>11} {_show_pair(others):>11} "
        f"{_show_late(result.late):>20} {len(result.lost) or '':>4} {len(result.wrong) or '':>5} "
        f"{again:>9} {result.verdict}"
    )
    if result.late:
        fields = ", ".join(f"{name} {n}" for name, n in result.late_fields.most_common(4))
        yield f"        late: {fields}"
    for text in [*result.reasons[:3], *result.wrong[:2]]:
        yield f"        {text[:140]}"


def _show_pair(pair: tuple[int, int]) -> str:
    return f"{pair[0]} of {pair[1]}" if pair[1] else ""


def _show_late(late: Mapping[int | None, int]) -> str:
    """By how many crawls: `12 by 1, 3 never`."""
    ordered = sorted(late.items(), key=lambda pair: pair[0] or 999)
    return ", ".join(f"{n} never" if by is None else f"{n} by {by}" for by, n in ordered)
