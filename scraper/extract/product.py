"""Reads a product page's fields and id by the definition. Missing or mistyped values become
sentences. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from scraper.domain import Extracted, Product, Vote
from scraper.extract.bounds import ReadElsewhere
from scraper.extract.document import Document
from scraper.extract.field_reader import ID_MAX, FieldReader, IdReader
from scraper.extract.heuristics import evidence
from scraper.rules import urls
from scraper.sites.grammar.css import parse_css
from scraper.sites.grammar.css_walk import CssWalk
from scraper.sites.grammar.fields import FieldSpec
from scraper.sites.grammar.page_specs import ProductPage


class ProductReader:
    """Reads product pages. Compiled once for each site."""

    def __init__(self, product: ProductPage, rules: urls.UrlRules) -> None:
        self._fields = [FieldReader(name, spec) for name, spec in product.fields.items()]
        self._id = IdReader(product.id) if product.id is not None else None
        self._rules = rules
        specs = product.fields.values()
        css = [reading.css for spec in specs for reading in spec.readings if reading.css]
        # Addresses are relative to <base>.
        css += ["base"] * any(spec.type == "url" for spec in specs)
        self._css_walk = CssWalk(map(parse_css, css))
        self._evidence = [
            (source, FieldReader(name, FieldSpec.model_validate({source: path, "type": spec.type})))
            for name, spec in product.fields.items()
            if spec.type in ("price", "text") and not spec.many
            for source, path in evidence.SOURCES.get(name, ())
            if all(getattr(reading, source) is None for reading in spec.readings)
        ]

    def read(self, document: Document, last_content: UUID | None = None) -> Extracted:
        """Reads a page's product. `last_content`: the hash of the page's last product. If the
        product differs, or the page is in the sample, the page's other sources vote on its
        fields."""
        document.css_walk = self._css_walk
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
            # A challenge or error page with status 200, for a definition without required fields.
            problems.append("none of the definition's fields is on the page")
            complete = False
        if external_id is None or not complete:
            return Extracted(
                problems=problems, complete=False, found=tuple(filled_in), mistyped=tuple(mistyped)
            )
        product = Product(external_id, data)
        collects_votes = self._evidence and (
            evidence.is_sampled(document.url)
            or (last_content is not None and product.content_hash != last_content)
        )
        return Extracted(
            products=[product],
            problems=problems,
            found=tuple(filled_in),
            mistyped=tuple(mistyped),
            votes=self._collect_votes(document, data) if collects_votes else (),
        )

    def _collect_votes(self, document: Document, data: dict[str, Any]) -> tuple[Vote, ...]:
        """Compares each field with the first other source that has it. Builds no DOM for this."""
        votes: list[Vote] = []
        for source, field in self._evidence:
            has_vote = bool(votes) and votes[-1].field == field.name
            if has_vote or (source != "jsonld" and not document.has_dom):
                continue
            witness: dict[str, Any] = {}
            # No vote is worth a subprocess.
            with suppress(ReadElsewhere):
                field.read(document, witness, [], [], [])
            if witness.get(field.name) is not None:
                votes.append(
                    Vote(field.name, source, evidence.values_agree(field.name, data, witness))
                )
        return tuple(votes)


def make_url_id(url: str, rules: urls.UrlRules) -> str:
    """Returns the canonical URL as a product's id; one over ID_MAX is cut and ends in its
    fingerprint."""
    canonical = urls.canonical(urls.clean(url, rules=rules) or url)
    return (
        canonical
        if len(canonical) <= ID_MAX
        else f"{canonical[: ID_MAX - 33]}#{urls.fingerprint(canonical).hex}"
    )
