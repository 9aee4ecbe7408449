"""The judgement of one crawl: what its pages say of each field, against what is usual at its
site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import sqlalchemy as sa

from scraper.registry import first_answer, plugin_hooks
from scraper.results import fill_rates, held_products
from scraper.results.fill_rates import FieldBaseline, FieldCounts
from scraper.results.judgement import implausible_values, judged_crawl, plausibility
from scraper.results.judgement.earlier_crawls import SuspectCrawl
from scraper.results.judgement.implausible_values import FieldMark
from scraper.results.judgement.plausibility import Changes
from scraper.rules import quality as policy
from scraper.rules.quality import FieldFigures, Reason, UsualFigures
from scraper.sites.definition import Site

# Held values are the examples of fields that are in breach for these reasons.
HELD_REASONS = ("implausible", "changed")
# Fields of these types are mostly stocks.
STOCKS = ("bool", "int")
NO_BASELINE = FieldBaseline(UsualFigures(), 0.0)


@dataclass(frozen=True, slots=True)
class WeighedChanges:
    """What a plug-in makes of surprising changes: fields that are `believed`, fields that are
    `denied` whatever their number, and fields whose pages it requests again (`questions`). `notes`
    are added to reasons."""

    believed: Set[str] = frozenset()
    denied: Set[str] = frozenset()
    questions: Set[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=dict)


class CrawlJudgement:
    """Compares a crawl's fields with what is usual at its site.

    `figures`, `votes` and `breaches` are by field. `compared` counts the products that were known
    before, `good` the good product pages. `notices` are what a person may want to know.
    """

    def __init__(
        self,
        connection: sa.Connection,
        crawl: sa.Row[Any],
        site: Site,
        before: SuspectCrawl | None,
        unlisted: int,
    ) -> None:
        self.connection = connection
        self.crawl = crawl
        self.site = site
        self._before = before
        self._ids = crawl.id, crawl.site_id
        sums = fill_rates.read_sums(connection, crawl.id)
        good, listed = judged_crawl.count_good(connection, *self._ids)
        self.good = good - unlisted
        share = sums.stored.records / max(1, self.good)
        self._usual = fill_rates.read_baseline(connection, crawl.site_id, crawl.id, share)
        self._lines = self._usual.baselines(site.tolerances)
        names = list(site.product.all_fields) or sorted(sums.names | self._lines.keys())
        self.figures = self._read_figures(sums, names)
        self.votes = {name: sums.votes_of(name) for name in names}
        self.breaches = self._broken_fields()
        self.notices: list[Reason] = []
        self.weighed = WeighedChanges()
        # Pages that answer 304 were requested and have not changed. Products of an interface have
        # no pages.
        new = crawl.products_new + held_products.count_held(connection, crawl.id)
        self.compared = max(0, sums.stored.records + crawl.not_modified + listed - new)
        # Without a good crawl before, no stored value is worth keeping.
        usual = self._usual.products
        self.tolerances = site.tolerances if usual else replace(site.tolerances, changed=1.0)

    def _read_figures(self, sums: FieldCounts, names: list[str]) -> dict[str, FieldFigures]:
        written = self.crawl.filter_id is not None
        values = judged_crawl.count_distinct(self.connection, *self._ids, written=written)
        return {name: sums.figures_of(name, *values.get(name, (0, 0))) for name in names}

    def _broken_fields(self) -> dict[str, Reason]:
        breaches = {}
        for name, now in self.figures.items():
            usual = self.baseline_of(name).usual
            reason = policy.judge_field(name, now, usual, self.site.tolerances)
            if reason is not None:
                breaches[name] = reason
        return breaches

    def baseline_of(self, name: str) -> FieldBaseline:
        return self._lines.get(name, NO_BASELINE)

    def of_type(self, *types: str) -> list[str]:
        fields = self.site.product.all_fields
        return [name for name, spec in fields.items() if spec.type in types]

    def is_own(self, name: str) -> bool:
        """Returns True if a field's values mostly differ from product to product."""
        now, usual = self.figures[name], self.baseline_of(name).usual
        share = usual.own_share or (now.distinct / now.sampled if now.sampled else 0.0)
        return share >= plausibility.OWN_VALUES

    def doubt_changes(self) -> int:
        """Marks the changes that are not believed, and adds them to the figures and breaches.
        Returns how many products' pages contradict what is known of them."""
        prices, switches = self.of_type("price"), self.of_type("bool")
        self._mark_implausible(prices, switches)
        values = self.connection, self.crawl.id
        changes, contrary = implausible_values.read_changes(*values, self.compared, prices)
        agreed = self._agreed_fields(changes, prices)
        switched = implausible_values.read_switched(*values, switches, prices)
        gone = self._gone_fields()
        for name in self.figures:
            change = replace(changes.get(name, Changes(self.compared)), agreed=name in agreed)
            changes[name] = replace(change, vanished=0) if name in switched else change
        answers = (
            hooks.weigh_changes(self, changes, contrary) for hooks in plugin_hooks().values()
        )
        self.weighed = first_answer(answers) or self.weighed
        believed = self.weighed.believed
        marks: list[FieldMark] = []
        for name, now in self.figures.items():
            change = changes[name]
            self.figures[name] = replace(now, compared=self.compared, changed=change.changed)
            usual, price = self.baseline_of(name).usual.changed, name in prices
            if name in believed:
                judged = plausibility.judge_changes(
                    name, change, usual, self.tolerances, price=price
                )
                if judged is not None:
                    text = judged.text + self.weighed.notes.get(name, "")
                    self.notices.append(replace(judged, text=text, level="notice"))
                change = replace(change, changed=0, alike=0, merged=0)
            marks += self._marks_of_change(name, change, switched)
            if self._keeps_values(name, changes[name]):
                del self.breaches[name]
            else:
                marks += self._marks_of_breach(name, switched=name in switched, gone=name in gone)
            reason = plausibility.judge_changes(name, change, usual, self.tolerances, price=price)
            if reason is not None:
                text = reason.text + self.weighed.notes.get(name, "")
                self.breaches.setdefault(name, replace(reason, text=text))
        implausible_values.mark_fields(*values, marks, prices)
        return contrary

    def _mark_implausible(self, prices: list[str], switches: list[str]) -> None:
        """Marks single values that are implausible."""
        tolerances = self.tolerances
        if tolerances.changed >= 1:
            return
        fields = implausible_values.FieldRoles(
            fields=list(self.figures),
            prices=prices,
            own=[name for name in self.figures if self.is_own(name)],
            lasting=[
                name for name in self.figures if plausibility.may_not_vanish(name, tolerances)
            ],
            switches=switches,
            stocks=implausible_values.find_stocks(switches),
            agreeing=[*self._usual.agreeing],
        )
        implausible_values.mark_implausible(self.connection, self.crawl.id, fields, self.compared)

    def _agreed_fields(self, changes: Mapping[str, Changes], prices: list[str]) -> set[str]:
        """Returns the fields that other sources of the pages confirm, and the prices without other
        sources that rise with one of these."""
        agreed = {name for name, votes in self.votes.items() if plausibility.sources_agree(votes)}
        changed = [name for name in prices if name in changes]
        risen = plausibility.rise_factors(
            [replace(changes[name], agreed=name in agreed) for name in changed]
        )
        silent = [name for name in changed if not self.votes[name]]
        return agreed.union(
            name for name in silent if plausibility.follows_rise(changes[name], risen)
        )

    def _gone_fields(self) -> set[str]:
        """Returns the fields that the shop no longer shows: they were missing in the previous crawl
        already, and their last values, which seldom changed, are nowhere on the pages now."""
        if self._before is None:
            return set()
        missing = {reason["field"] for reason in self._before.reasons}
        texts = self.of_type("text")
        return {
            name
            for name in judged_crawl.read_absent_fields(self.connection, self.crawl.id)
            if name in missing
            and name in texts
            and (self.baseline_of(name).usual.changed or 0.0) <= plausibility.SELDOM_CHANGES
        }

    def _marks_of_change(
        self, name: str, change: Changes, switched: Mapping[str, str]
    ) -> Iterator[FieldMark]:
        """Yields what to hold of a field that changed on too many products, and of the fields that
        vanished with it, if it is a switch."""
        doubt = self.find_doubt(name, change)
        if doubt is not None:
            yield FieldMark(name, doubt, doubt, fresh=True)
            for other, switch in switched.items():
                if switch == name:
                    yield FieldMark(other, doubt, "vanished", fresh=True)

    def find_doubt(self, name: str, change: Changes) -> Literal["changed", "vanished"] | None:
        doubt = plausibility.find_doubt(
            name,
            change,
            self.baseline_of(name).usual.changed,
            self.tolerances,
            price=name in self.of_type("price"),
            text=name in self.of_type("text") and self.is_own(name),
            steady=name not in self.of_type(*STOCKS),
        )
        # What second readings took back is no longer among the changes.
        return doubt or ("changed" if name in self.weighed.denied else None)

    def _keeps_values(self, name: str, change: Changes) -> bool:
        """Returns whether most products that were read were known before, and did not change what a
        field is in breach for: they may be those of one brand, or of those that were never reduced.
        """
        breach, now = self.breaches.get(name), self.figures[name]
        earlier = self.compared - self.crawl.not_modified
        if breach is None or 2 * earlier < now.records or name in self.tolerances.required:
            return False
        if breach.what in ("fill", "late"):
            return now.vanished < plausibility.HELD_LEAST
        # Prices that many products share wait one by one.
        products = self.compared if name in self.of_type("price") else earlier
        return breach.what == "distinct" and bool(2 * (change.changed + change.held) < products)

    def _marks_of_breach(self, name: str, *, switched: bool, gone: bool) -> Iterator[FieldMark]:
        """Yields what to hold of a field that is missing or wrong on too many pages. A field that
        went with a switch, or that the shop no longer shows, is not in breach."""
        breach = self.breaches.get(name)
        with_switch = switched and breach is not None and breach.what in ("fill", "late")
        if with_switch or (gone and not sum(no for _, no in self.votes[name].values())):
            self.breaches.pop(name, None)
        elif name in self._lines:
            usual, line = self._lines[name]
            if policy.is_broken(self.figures[name], line, usual.fill or 0.0):
                yield FieldMark(name, "fill", "vanished", fresh=False)
            if breach is not None:
                difference = None if breach.what in ("mistyped", "distinct") else "vanished"
                yield FieldMark(name, breach.what, difference, fresh=False)

    def find_reasons(self, contrary: int, *, whole: bool) -> list[Reason]:
        """Returns why the crawl is suspect, its number of products first."""
        reasons = [*self._odd_pages(contrary), *self.breaches.values()]
        missing = self._missing_products() if whole else None
        return reasons if missing is None else [missing, *reasons]

    def _missing_products(self) -> Reason | None:
        reason = policy.judge_products(self.good, self._usual.products, self.site.tolerances)
        if reason is not None and reason.what == "products" and self._before is not None:
            return None if self._before.found_as_many(self.good) else reason
        return reason

    def _odd_pages(self, contrary: int) -> list[Reason]:
        """Returns why the crawl as a whole is odd: too many pages are not their products' pages."""
        if self.site.tolerances.changed >= 1:
            return []
        read = max((now.records for now in self.figures.values()), default=0)
        doubtful = judged_crawl.read_doubtful_pages(self.connection, *self._ids)
        crawl, several = self.crawl, self.site.product.items is not None
        others = held_products.mark_implausible(
            self.connection, crawl.id, crawl.site_id, self.of_type("price"), several=several
        )
        odd = [
            plausibility.judge_pages(contrary, self.compared, doubtful, read),
            plausibility.judge_ids(others, read),
        ]
        if not several:
            strayed, usual = judged_crawl.count_strayed(self.connection, *self._ids)
            odd.append(plausibility.judge_strayed(strayed, usual, read))
        return [reason for reason in odd if reason is not None]

    def store_number(self, *, whole: bool) -> None:
        """Stores the number of good products, unless the crawl is only a part of the site."""
        usual = policy.usual_product_count(self._usual.products)
        products = self.good if whole else None
        judged_crawl.store_number(self.connection, self.crawl.id, products, usual)

    def keep_examples(self) -> None:
        """Keeps a few examples of each field that is in breach or seldom filled, and no others."""
        seldom = [
            name
            for name, now in self.figures.items()
            if policy.is_rare(self.baseline_of(name).usual.fill, now.fill)
        ]
        held = [name for name, breach in self.breaches.items() if breach.what in HELD_REASONS]
        fields = [*self.breaches, *seldom]
        judged_crawl.keep_examples(self.connection, self.crawl.id, fields, held)

    def store_fields(self, held: Mapping[str, int]) -> None:
        """Stores the judged figures. `held` says how many values of each field stay held."""
        rows = []
        for name, now in self.figures.items():
            usual, line = self.baseline_of(name)
            rows.append(
                {
                    **asdict(now),
                    "field": name,
                    "held": held.get(name, 0),
                    "votes": self.votes[name],
                    "usual_fill": usual.fill,
                    "usual_mistyped": usual.mistyped,
                    "usual_distinct": usual.distinct,
                    "line": line,
                    "breach": self.breaches[name].what if name in self.breaches else None,
                }
            )
        judged_crawl.store_fields(self.connection, self.crawl.id, rows)
