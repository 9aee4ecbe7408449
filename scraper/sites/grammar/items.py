"""Several products on one page: the element or JSON object, the id, and the own fields of each.
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
    """The products of a page: an element or a JSON object each. Needs one of css, xpath, jsonld,
    microdata, state, response."""

    css: Css | None = Field(
        None, description="CSS: each element is a product; with `::attr(…)` or `::text`: JSON in it"
    )
    xpath: XPath | None = Field(None, description="the same, by XPath 1.0")
    jsonld: JsonLdObjects | None = Field(
        None, description="objects of the page's JSON-LD: `hasVariant`, `offers`, or `Product`"
    )
    microdata: JsonLdObjects | None = Field(None, description="the same, for microdata")
    state: JsonPath | None = Field(
        None, description="objects of the JSON that the page's scripts start with"
    )
    response: Captured | None = Field(None, description=RESPONSE)
    path: JsonPath | None = Field(None, description=PATH)
    id: Annotated[IdSource, BeforeValidator(expand_css, json_schema_input_type=str | IdSource)] = (
        Field(description="each product's own id, read within it")
    )
    fields: dict[
        FieldName,
        Annotated[FieldSpec, BeforeValidator(expand_css, json_schema_input_type=str | FieldSpec)],
    ] = Field(
        default_factory=dict,
        max_length=500,
        description="each product's own fields, read within it",
    )
    optional: bool = Field(
        False, description="true: a page without items is one product, with `product.id`"
    )

    @property
    def scope(self) -> Source:
        """The source of the products. Not validated again, because a JSON-LD type alone is valid
        here."""
        keys = (*SCOPES, "path")
        return Source.model_construct(**{key: getattr(self, key) for key in keys})

    @model_validator(mode="before")
    @classmethod
    def _expand_texts(cls, data: Any) -> Any:
        """Expands plain texts to the kind of source that the products have: path, CSS or XPath."""
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
