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
    expand_css,
    run_check,
)
from scraper.sites.grammar.selectors import parse_jsonld_objects
from scraper.sites.grammar.sources import (
    PATH,
    RESPONSE,
    SCOPES,
    Source,
    expand_inner_fields,
    expand_inner_source,
    find_inner_problems,
    find_scope_problems,
    list_alternatives,
)

JsonLdObjects = Annotated[str, AfterValidator(partial(run_check, parse_jsonld_objects))]


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
    id: Annotated[IdSource, BeforeValidator(expand_css, json_schema_input_type=str | IdSource)] = (
        Field(description="each product's own id, within it")
    )
    fields: dict[
        FieldName,
        Annotated[FieldSpec, BeforeValidator(expand_css, json_schema_input_type=str | FieldSpec)],
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
    def _expand_texts(cls, data: Any) -> Any:
        """A text alone is read as the products are: a path, CSS or XPath."""
        if not isinstance(data, dict):
            return data
        return {
            **data,
            **({"id": expand_inner_source(data["id"], data)} if "id" in data else {}),
            **({"fields": expand_inner_fields(data["fields"], data)} if "fields" in data else {}),
        }

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        Problems(find_scope_problems(self.scope)).raise_any()
        sources = list_alternatives("id", self.id)
        for name, spec in self.fields.items():
            sources |= list_alternatives(f"fields.{name}", spec)
        Problems(find_inner_problems(sources, self.scope, where="items")).raise_any()
        return self
