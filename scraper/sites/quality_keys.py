"""How much a crawl may differ from earlier ones before it is suspect: `quality:` in a definition.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from scraper.rules.quality import Tolerances
from scraper.sites.grammar import scalars
from scraper.sites.grammar.model import Model, Share

NO_LIMITS = {"products": "0", "fill": "0", "mistyped": "100%", "distinct": "0", "changed": "100%"}


class Quality(Model):
    """The limits beyond which a crawl is suspect."""

    products: Share = Field(
        "50%", description="the number of good products, as a share of the usual one; 0: not judged"
    )
    products_floor: int = Field(
        0,
        ge=0,
        le=1_000_000_000,
        description="the least number of good products, whatever is usual",
    )
    fill: Share = Field(
        "80%", description="a field's fill rate, as a share of its usual one; 0: not judged"
    )
    mistyped: Share = Field(
        "10%", description="product pages with a mistyped value, above the usual; 100%: not judged"
    )
    distinct: Share = Field(
        "25%", description="a field's distinct values, as a share of the usual; 0: not judged"
    )
    changed: Share = Field(
        "10%",
        description="products with a changed value of a field, above 1.5 times the usual; 100%: "
        "not judged, and no value is held",
    )
    doubt: Literal["confirm", "wait", "publish"] = Field(
        "confirm",
        description="a field that changed on many products: `confirm` requests some of the pages "
        "again before the crawl ends; `wait` holds it until the next crawl; `publish` never does",
    )
    accept_after: int | None = Field(
        None,
        ge=2,
        le=100,
        description="after this many suspect crawls in a row with the same breaches, the last "
        "one is usual",
    )

    def tolerances(self, fields: Mapping[str, Mapping[str, Any]]) -> Tolerances:
        """Returns the tolerances for fields with these `floor`, `required`, `type` and `auto`, if
        given."""
        share = scalars.parse_share
        required = [name for name, spec in fields.items() if spec.get("required")]
        varied = [
            name
            for name, spec in fields.items()
            if spec.get("type") == "price"
            or (spec.get("required") and spec.get("type", "text") == "text")
        ]
        return Tolerances(
            products=share(self.products),
            fill=share(self.fill),
            mistyped=share(self.mistyped),
            distinct=share(self.distinct),
            changed=share(self.changed),
            products_floor=self.products_floor,
            floors={
                name: share(spec["floor"])
                for name, spec in fields.items()
                if spec.get("floor") is not None
            },
            required=frozenset(required),
            varied=frozenset(varied),
            optional=frozenset(
                name for name, spec in fields.items() if spec.get("auto") and name not in varied
            ),
        )


def read_tolerances(definition: Mapping[str, Any]) -> Tolerances:
    """Returns the tolerances of a stored definition without validating the whole definition, which
    takes milliseconds."""
    fields = definition["product"].get("fields", {})
    return Quality.model_validate(definition.get("quality", {})).tolerances(fields)


def expand_none(value: Any) -> Any:
    """Expands `quality: none` to limits that judge nothing."""
    if value == "none":
        return dict(NO_LIMITS)
    if isinstance(value, str):
        raise ValueError(
            f"{value!r} is not valid (fix: `none`, or tolerances, as in `{{fill: 90%}}`)"
        )
    return value
