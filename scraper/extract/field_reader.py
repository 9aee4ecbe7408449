"""Reads one field, or the id, of a product. Missing or mistyped values become sentences. Pure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from scraper.extract import values
from scraper.extract.document import Document
from scraper.extract.items.nested import ReadValue, compile_objects, compile_table
from scraper.extract.prices.currencies import THOUSANDTHS
from scraper.extract.prices.money import to_price
from scraper.extract.sources import (
    SELECTOR_ERRORS,
    VALUES_MAX,
    Texts,
    compile_source,
    explain_failure,
)
from scraper.extract.text import current_price_text, price_text, whole_text
from scraper.extract.values import Mistyped
from scraper.sites.grammar import selectors
from scraper.sites.grammar.fields import FieldSource, FieldSpec, IdSource
from scraper.sites.grammar.sources import STRUCTURED, Source

ID_MAX = 500
# The value of a bool with `when` if the page has no text for it: false, but not found on the page.
NOTHING_SHOWN = object()
# From a text, the page, and the currency next to the price.
Typed = Callable[[str, Document, str | None], Any]


class Money(NamedTuple):
    amount: Decimal
    currency: str | None


class _CompiledReading(NamedTuple):
    """One alternative of a field: its texts, and the conversion of a text. `read_value`: reads a
    value that is not a text. `plain`: the first text is the value."""

    texts: Texts
    typed: Typed
    reading: FieldSource
    currency: Texts | None
    read_value: ReadValue | None = None
    plain: bool = False


class IdReader:
    """Reads a product's own id. Compiled once for each site."""

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
    """Reads a field of a page, or of a part of a page. Compiled once for each site."""

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
        """Puts the field's value into `data` and its name into `found` or `mistyped`. Returns False
        if a required field has no value."""
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
        """Returns whether the value certainly comes from the page's body, and not from a default,
        an absence or the URL."""
        return (
            value is not None
            and value is not False
            and value != self.spec.default
            and self.spec.url is None
        )

    def _read_value(self, compiled: _CompiledReading, document: Document, faults: list[str]) -> Any:
        if compiled.read_value is not None:
            return compiled.read_value(document, faults)
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
        # White space in texts is collapsed, so a separator of "\n" means a space.
        mark = separator.strip() or " "
        return [part for text in texts for part in map(str.strip, text.split(mark)) if part]

    def _convert_text(
        self, text: str, compiled: _CompiledReading, document: Document, faults: list[str]
    ) -> Any:
        reading, spec = compiled.reading, self.spec
        if reading.map is not None:
            mapped = values.map_text(text, reading.map)
            if mapped is None:
                faults.append(f"{self.name}: {text[:60]!r} is not in its map")
                return None
            text = mapped
        if len(text) > spec.max_length:
            if spec.type not in ("text", "list"):
                faults.append(
                    f"{self.name}: {len(text):,} characters are not a value of type {spec.type} "
                    f"({reading.described})"
                )
                return None
            faults.append(f"{self.name}: {len(text):,} characters, cut")
            text = text[: spec.max_length]
        beside = compiled.currency and self._read_currency(compiled.currency, document)
        try:
            value = compiled.typed(text, document, beside)
        except Mistyped as error:
            faults.append(f"{self.name}: {error} ({reading.described})")
            return None
        return value if beside is None else value._replace(currency=beside)

    def _read_currency(self, currency: Texts, document: Document) -> str | None:
        codes = currency(document, False)
        code = codes[0].upper() if codes else ""
        return code if len(code) == 3 and code.isascii() and code.isalpha() else None

    def _default_value(self) -> Any:
        default = self.spec.default
        if self.spec.type == "price":
            return Money(Decimal(str(default)), self.spec.currency)
        return Decimal(str(default)) if self.spec.type == "decimal" else default

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
        read_value = compile_objects(name, reading, fields)
        return _CompiledReading(_no_texts, _compile_type(reading, spec), reading, None, read_value)
    if reading.table is not None:
        read_value = compile_table(name, reading, spec.max_length)
        return _CompiledReading(_no_texts, _compile_type(reading, spec), reading, None, read_value)
    beside = _currency_source(reading) if spec.type == "price" and not reading.regex else None
    currency = compile_source(Source.model_validate(beside)) if beside is not None else None
    price_of = price_text if reading.regex else current_price_text
    texts = compile_source(reading, price_of if spec.type == "price" else whole_text)
    plain = spec.type == "text" and not spec.many
    plain &= reading.join is None and reading.split is None and reading.map is None
    return _CompiledReading(texts, _compile_type(reading, spec), reading, currency, plain=plain)


def _no_texts(document: Document, every: bool) -> list[str]:
    return []


def _currency_source(reading: FieldSource) -> dict[str, str] | None:
    """Returns the source of the currency next to a price in structured data."""
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
    beside = selectors.parse_jsonld(path).make_sibling("priceCurrency")
    steps = (step if isinstance(step, str) else f"[{step}]" for step in beside.steps)
    return {key: ".".join([beside.type, *steps]).replace(".[", "[")}


def _compile_type(reading: FieldSource, spec: FieldSpec) -> Typed:
    # The texts of `auto` are its own.
    decimal = None if reading.auto is not None else reading.decimal
    currency = reading.currency
    match spec.type:
        case "text" | "list" | "object" | "objects":
            return lambda text, document, beside: text
        case "int":
            return lambda text, document, beside: values.to_int(text, decimal)
        case "decimal":
            return lambda text, document, beside: values.to_decimal(text, decimal)
        case "price":
            return lambda text, document, beside: _parse_money(
                text, reading, decimal, beside or currency, document
            )
        case "bool" if reading.when is not None:
            pattern = selectors.compile_regex(reading.when)
            return lambda text, document, beside: selectors.matches_anywhere(pattern, text)
        case "bool":
            return lambda text, document, beside: values.to_bool(text)
        case "date":
            return lambda text, document, beside: values.to_date(
                text, reading.format, bool(reading.dayfirst)
            )
        case _:
            return lambda text, document, beside: values.to_url(text, document.base)


def _parse_money(
    text: str, reading: FieldSource, decimal: str | None, currency: str | None, document: Document
) -> Money:
    stated = reading.has_json_numbers or any((reading.microdata, reading.rdfa, reading.meta))
    if stated and text.isascii() and text.replace(".", "", 1).isdigit():
        # The dot of 1299.000 separates no thousands, nor does that of 12.500 dinars.
        exact = text.find(".") > 3 or currency in THOUSANDTHS
        if exact or (reading.has_json_numbers and decimal is None):
            amount, code = to_price(text, ".", currency)
            # Some shops write the dot of "1.299 €" into JSON.
            if text[-4:-3] == ".":
                amount = document.auto.restore_thousands(amount, code)
            return Money(amount, code)
    return Money(*to_price(text, decimal, currency))
