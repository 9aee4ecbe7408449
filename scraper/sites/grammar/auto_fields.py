"""The fields that `auto` can read, and their types. Pure."""

from __future__ import annotations

from typing import Any, Literal

AutoField = Literal[
    "title",
    "price",
    "availability",
    "sku",
    "gtin",
    "brand",
    "category",
    "image",
    "description",
    "rating",
]
AUTO = "auto"
TYPES: dict[str, dict[str, Any]] = {
    "title": {},
    "price": {"type": "price"},
    "availability": {"type": "bool"},
    "sku": {},
    "gtin": {},
    "brand": {},
    "category": {},
    "image": {"type": "url"},
    "description": {},
    "rating": {"type": "decimal"},
}
# Fields that change from day to day.
CHANGING = frozenset({"price", "list_price", "availability", "stock"})


def expand_fields(value: Any) -> Any:
    """Expands `fields: auto` and `price: auto`: each field reads the value of its own name."""
    if value == AUTO:
        return {
            name: {AUTO: name, **options, "required": name == "title"}
            for name, options in TYPES.items()
        }
    if not isinstance(value, dict):
        return value
    return {name: _expand_field(name, spec) for name, spec in value.items()}


def _expand_field(name: Any, spec: Any) -> Any:
    if spec != AUTO:
        return spec
    options = TYPES.get(name)
    if options is None:
        raise ValueError(
            f"{name} is not a field that `auto` knows (fix: one of {', '.join(TYPES)}; or name the "
            f"one to read: {{auto: sku}})"
        )
    return {AUTO: name, **options}
