"""A product page's fields and id, read as the definition says; what is missing or mistyped becomes
a sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from scraper.domain import Extracted, Product, Vote, content_hash
from scraper.extract import money, values
from scraper.extract.document import Document
from scraper.extract.heuristics import evidence
from scraper.extract.items.nested import ReadValue, compile_objects, compile_table
from scraper.extract.sources import (
    SELECTOR_ERRORS,
    VALUES_MAX,
    Texts,
    compile_source,
    explain_failure,
)
from scraper.extract.text import price_text, whole_text
from scraper.extract.values import Mistyped
from scraper.rules import urls
from scraper.sites.grammar import selectors
from scraper.sites.grammar.fields import FieldSource, FieldSpec, IdSource
from scraper.sites.grammar.page_specs import ProductPage
from scraper.sites.grammar.sources import STRUCTURED, Source

ID_MAX = 500
# A bool with `when` is false where there is no text, but nothing was found there.
NOTHING_SHOWN = object()
Typed = Callable[[str, Document], Any]


class Money(NamedTuple):
    amount: Decimal
    currency: str | None


class _CompiledReading(NamedTuple):
    """One alternative of a field: where its texts are, and what one of them becomes. `whole`: it is
    no text, and this reads it. `plain`: its first text is its value."""

    texts: Texts
    typed: Typed
    reading: FieldSource
    currency: Texts | None
    whole: ReadValue | None = None
    plain: bool = False


class ProductReader:
    """Compiled once a site; `read` is called once a page."""

    def __init__(self, product: ProductPage, rules: urls.UrlRules) -> None:
        self._fields = [FieldReader(name, spec) for name, spec in product.fields.items()]
        self._id = IdReader(product.id) if product.id is not None else None
        self._rules = rules
        self._evidence = [
            (source, FieldReader(name, FieldSpec.model_validate({source: path, "type": spec.type})))
            for name, spec in product.fields.items()
            if spec.type in ("price", "text") and not spec.many
            for source, path in evidence.SOURCES.get(name, ())
            if all(getattr(reading, source) is None for reading in spec.readings)
        ]

    def read(self, document: Document, last_content: UUID | None = None) -> Extracted:
        """`last_content`: the hash of what the page gave last. Where it gives something else now,
        its other sources are asked, and on a sample of all pages."""
        data: dict[str, Any] = {}
        problems: list[str] = []
        complete = True
        filled_in: list[str] = []
        mistyped: list[str] = []
        external_id = (
            make_url_id(document.url, self._rules)
            if self._id is None
            else self._id.read(document, problems)
        )
        for field in self._fields:
            complete &= field.read(document, data, problems, filled_in, mistyped)
            document.budget.check(field.name)
        if complete and not any(
            field.comes_from_page(data.get(field.name)) for field in self._fields
        ):
            # A challenge or error page that answers 200, for a definition that requires nothing.
            problems.append("not one field of the definition is on the page")
            complete = False
        if external_id is None or not complete:
            return Extracted(
                problems=problems, complete=False, found=tuple(filled_in), mistyped=tuple(mistyped)
            )
        asks = self._evidence and (
            evidence.is_sampled(document.url)
            or (last_content is not None and content_hash(data) != last_content)
        )
        return Extracted(
            products=[Product(external_id, data)],
            problems=problems,
            found=tuple(filled_in),
            mistyped=tuple(mistyped),
            votes=self._collect_votes(document, data) if asks else (),
        )

    def _collect_votes(self, document: Document, data: dict[str, Any]) -> tuple[Vote, ...]:
        """What another source says of each field: the first that has it. No DOM is built for it."""
        votes: list[Vote] = []
        for source, field in self._evidence:
            has_vote = bool(votes) and votes[-1].field == field.name
            if has_vote or (source != "jsonld" and not document.has_dom):
                continue
            witness: dict[str, Any] = {}
            field.read(document, witness, [], [], [])
            if witness.get(field.name) is not None:
                votes.append(
                    Vote(field.name, source, evidence.values_agree(field.name, data, witness))
                )
        return tuple(votes)


def make_url_id(url: str, rules: urls.UrlRules) -> str:
    """The canonical URL as a product's id; an over-long one ends in its fingerprint."""
    canonical = urls.canonical(urls.clean(url, rules=rules) or url)
    return (
        canonical
        if len(canonical) <= ID_MAX
        else f"{canonical[: ID_MAX - 33]}#{urls.fingerprint(canonical).hex}"
    )


class IdReader:
    """A product's own id, as the definition says. Compiled once a site."""

    def __init__(self, spec: IdSource) -> None:
        self._sources = [compile_source(source) for source in (spec.any or (spec,))]
        self._described = "any of `any:`" if spec.any else spec.described

    def read(self, document: Document, problems: list[str]) -> str | None:
        for texts in self._sources:
            try:
                matches = texts(document, False)
            except SELECTOR_ERRORS as error:
                problems.append(f"id: {explain_failure(error)}")
                continue
            if matches and len(matches[0]) <= ID_MAX:
                return matches[0]
            if matches:
                problems.append(f"id: longer than {ID_MAX} characters ({len(matches[0]):,})")
        problems.append(f"id: nothing matched {self._described}")
        return None


class FieldReader:
    """A field of a page, or of a part of one. Compiled once a site."""

    def __init__(self, name: str, spec: FieldSpec) -> None:
        self.name = name
        self.spec = spec
        self.readings = [_compile_reading(name, reading, spec) for reading in spec.readings]
        self.listed = spec.many or spec.type == "list"

    def read(
        self,
        document: Document,
        data: dict[str, Any],
        problems: list[str],
        found: list[str],
        mistyped: list[str],
    ) -> bool:
        """Puts the field's value into `data`, and its name among those found or mistyped; False
        where a required field has none."""
        faults: list[str] = []
        for compiled in self.readings:
            try:
                value = self._read_value(compiled, document, faults)
            except SELECTOR_ERRORS as error:
                faults.append(f"{self.name}: {explain_failure(error)}")
                continue
            if value is not None:
                self._store_value(False if value is NOTHING_SHOWN else value, data)
                if faults:
                    problems += [fault for fault in faults if fault.endswith("cut")]
                if value is not NOTHING_SHOWN:
                    found.append(self.name)
                if compiled.reading.auto is not None:
                    sure = document.auto.read(compiled.reading.auto)
                    data[f"{self.name}_confidence"] = sure and Decimal(str(sure.confidence))
                return True
        if faults:
            mistyped.append(self.name)
        if self.spec.default is not None:
            self._store_value(self._default_value(), data)
        elif self.spec.required and not faults:
            described = " or ".join(compiled.reading.described for compiled in self.readings)
            faults.append(f"{self.name}: nothing matched {described}")
        problems += faults
        return not self.spec.required

    def comes_from_page(self, value: Any) -> bool:
        """True for a value that must have come from the page's body: no default, no absence,
        nothing of the URL."""
        return (
            value is not None
            and value is not False
            and value != self.spec.default
            and self.spec.url is None
        )

    def _read_value(self, compiled: _CompiledReading, document: Document, faults: list[str]) -> Any:
        if compiled.whole is not None:
            return compiled.whole(document, faults)
        if compiled.plain:
            texts = compiled.texts(document, False)
            if not texts:
                return None
            if len(texts[0]) <= self.spec.max_length:
                return texts[0]
        reading = compiled.reading
        texts = compiled.texts(document, self.listed or reading.join is not None)
        if not texts:
            return NOTHING_SHOWN if reading.when is not None and not self.listed else None
        if reading.join is not None:
            texts = [reading.join.join(texts)]
        parts = texts if reading.split is None else self._split_texts(texts, reading.split)
        if not self.listed:
            for text in parts:
                value = self._convert_text(text, compiled, document, faults)
                if value is not None:
                    return value
            return None
        typed_values = [
            value
            for text in parts
            if (value := self._convert_text(text, compiled, document, faults)) is not None
        ]
        return typed_values[:VALUES_MAX] or None

    def _split_texts(self, texts: list[str], separator: str) -> list[str]:
        # White space in texts is collapsed, so "\n" means a space.
        mark = separator.strip() or " "
        return [part for text in texts for part in map(str.strip, text.split(mark)) if part]

    def _convert_text(
        self, text: str, compiled: _CompiledReading, document: Document, faults: list[str]
    ) -> Any:
        reading, spec = compiled.reading, self.spec
        mapped: str | None = text
        if reading.map is not None:
            mapped = values.map_text(text, reading.map)
            if mapped is None:
                faults.append(f"{self.name}: {text[:60]!r} is not in its map")
                return None
            text = mapped
        if len(text) > spec.max_length:
            if spec.type not in ("text", "list"):
                faults.append(
                    f"{self.name}: {len(text):,} characters are no {spec.type} "
                    f"({reading.described})"
                )
                return None
            faults.append(f"{self.name}: {len(text):,} characters, cut")
            text = text[: spec.max_length]
        try:
            value = compiled.typed(text, document)
        except Mistyped as error:
            faults.append(f"{self.name}: {error} ({reading.described})")
            return None
        if isinstance(value, Money) and compiled.currency is not None:
            return Money(
                value.amount, self._read_currency(compiled.currency, document) or value.currency
            )
        return value

    def _read_currency(self, currency: Texts, document: Document) -> str | None:
        codes = currency(document, False)
        code = codes[0].upper() if codes else ""
        return code if len(code) == 3 and code.isascii() and code.isalpha() else None

    def _default_value(self) -> Any:
        default = self.spec.default
        match self.spec.type:
            case "price":
                return Money(Decimal(str(default)), self.spec.currency)
            case "decimal":
                return Decimal(str(default))
            case _:
                return default

    def _store_value(self, value: Any, data: dict[str, Any]) -> None:
        if self.spec.type != "price":
            data[self.name] = value
        elif isinstance(value, list):
            data[self.name] = [money.amount for money in value]
            data[f"{self.name}_currency"] = value[0].currency
        else:
            data[self.name] = value.amount
            data[f"{self.name}_currency"] = value.currency


def _compile_reading(name: str, reading: FieldSource, spec: FieldSpec) -> _CompiledReading:
    if spec.each is not None:
        fields = [FieldReader(key, inner) for key, inner in spec.each.items()]
        whole = compile_objects(name, reading, fields)
        return _CompiledReading(_no_texts, _compile_type(reading, spec), reading, None, whole)
    if reading.table is not None:
        whole = compile_table(name, reading, spec.max_length)
        return _CompiledReading(_no_texts, _compile_type(reading, spec), reading, None, whole)
    beside = _currency_source(reading) if spec.type == "price" and not reading.regex else None
    currency = compile_source(Source.model_validate(beside)) if beside is not None else None
    texts = compile_source(reading, price_text if spec.type == "price" else whole_text)
    plain = spec.type == "text" and not spec.many
    plain &= reading.join is None and reading.split is None and reading.map is None
    return _CompiledReading(texts, _compile_type(reading, spec), reading, currency, plain=plain)


def _no_texts(document: Document, every: bool) -> list[str]:
    return []


def _currency_source(reading: FieldSource) -> dict[str, str] | None:
    """Where the currency of a price is that is written for machines: beside it."""
    if reading.meta is not None:
        name = reading.meta.lower()
        return {"meta": name[:-6] + "currency"} if name.endswith(":amount") else None
    if reading.path is not None and reading.response is None:
        last = reading.path.rpartition(".")[0]
        return {"path": f"{last}.priceCurrency" if last else "priceCurrency"}
    key = next((key for key in STRUCTURED if getattr(reading, key) is not None), None)
    if key is None:
        return None
    path = getattr(reading, key)
    beside = selectors.parse_jsonld(path).sibling("priceCurrency")
    steps = (step if isinstance(step, str) else f"[{step}]" for step in beside.steps)
    return {key: ".".join([beside.type, *steps]).replace(".[", "[")}


def _compile_type(reading: FieldSource, spec: FieldSpec) -> Typed:
    decimal, currency = reading.decimal, reading.currency
    match spec.type:
        case "text" | "list" | "object" | "objects":
            return lambda text, document: text
        case "int":
            return lambda text, document: values.to_int(text, decimal)
        case "decimal":
            return lambda text, document: values.to_decimal(text, decimal)
        case "price":
            # JSON has dots alone.
            inner = reading.path is not None and reading.response is None
            written = reading.jsonld is not None or reading.state is not None or inner
            exact = "." if written and decimal is None else None
            return lambda text, document: _parse_money(text, decimal, currency, exact)
        case "bool" if reading.when is not None:
            pattern = selectors.compile_regex(reading.when)
            return lambda text, document: selectors.find_at_all(pattern, text)
        case "bool":
            return lambda text, document: values.to_bool(text)
        case "date":
            return lambda text, document: values.to_date(
                text, reading.format, bool(reading.dayfirst)
            )
        case _:
            return lambda text, document: values.to_url(text, document.base)


def _parse_money(text: str, decimal: str | None, currency: str | None, exact: str | None) -> Money:
    if exact is not None and text.isascii() and text.replace(exact, "", 1).isdigit():
        decimal = exact
    return Money(*money.to_price(text, decimal, currency))
