"""Several products on one page: what each of them is, its own id, and the fields that are its own.
Pure."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from scraper.sites.grammar.fields import FieldSpec, IdSource
from scraper.sites.grammar.model import (
    Captured,
    Css,
    FieldName,
    JsonPath,
    Model,
    Problems,
    XPath,
    as_css,
    checked,
)
from scraper.sites.grammar.selectors import parse_jsonld_objects
from scraper.sites.grammar.sources import (
    PATH,
    RESPONSE,
    SCOPES,
    Source,
    alternatives,
    inner_fields,
    inner_problems,
    inner_source,
    scope_problems,
)

JsonLdObjects = Annotated[str, AfterValidator(partial(checked, parse_jsonld_objects))]


class Items(Model):
    """The products of a page, each an element or an object of JSON. One of css, xpath, jsonld,
    microdata, state, response."""

    css: Css | None = Field(
        None, description="CSS: each element is a product; with `::attr(…)` or `::text`: JSON in it"
    )
    xpath: XPath | None = Field(None, description="XPath 1.0, likewise")
    jsonld: JsonLdObjects | None = Field(
        None, description="objects of the page's JSON-LD: `hasVariant`, `offers`, or `Product`"
    )
    microdata: JsonLdObjects | None = Field(None, description="likewise, of its microdata")
    state: JsonPath | None = Field(
        None, description="objects of the JSON that the page's scripts start from"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH)
    id: Annotated[IdSource, BeforeValidator(as_css, json_schema_input_type=str | IdSource)] = Field(
        description="each product's own id, within it"
    )
    fields: dict[
        FieldName,
        Annotated[FieldSpec, BeforeValidator(as_css, json_schema_input_type=str | FieldSpec)],
    ] = Field(
        default_factory=dict,
        max_length=500,
        description="what each product has of its own, read within it",
    )
    optional: bool = Field(
        False, description="true: a page without any is one product, with `product.id`"
    )

    @property
    def scope(self) -> Source:
        """What matches the products. (Not validated again: a JSON-LD type may stand alone.)"""
        keys = (*SCOPES, "path")
        return Source.model_construct(**{key: getattr(self, key) for key in keys})

    @model_validator(mode="before")
    @classmethod
    def _within(cls, data: Any) -> Any:
        """A text alone is read as the products are: a path, CSS or XPath."""
        if not isinstance(data, dict):
            return data
        return {
            **data,
            **({"id": inner_source(data["id"], data)} if "id" in data else {}),
            **({"fields": inner_fields(data["fields"], data)} if "fields" in data else {}),
        }

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        Problems(scope_problems(self.scope)).raise_any()
        sources = alternatives("id", self.id)
        for name, spec in self.fields.items():
            sources |= alternatives(f"fields.{name}", spec)
        Problems(inner_problems(sources, self.scope, where="items")).raise_any()
        return self
