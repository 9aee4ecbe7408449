"""State that GraphQL clients keep apart by id (Apollo's `Product:123`): what a page asked for, put
together again under the names of its queries. Pure."""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 10
NODES_MAX = 20_000
# So deep below a document such a state is looked for: `props.pageProps.apolloState`.
LOOKED_DEPTH = 5
_ROOT = "ROOT_QUERY"


def resolved(document: Any, depth: int = LOOKED_DEPTH) -> Any:
    """The document; each such state in it has its queries' answers as well, by their names without
    arguments: `product({"id":1})` is `product`."""
    if not isinstance(document, dict) or not depth:
        return document
    if isinstance(document.get(_ROOT), dict):
        answers = _Resolver(document).fields(document[_ROOT], DEPTH_MAX)
        return {**answers, **document}
    for key, value in document.items():
        inner = resolved(value, depth - 1)
        if inner is not value:
            return {**document, key: inner}
    return document


class _Resolver:
    def __init__(self, entities: dict[str, Any]) -> None:
        self._entities = entities
        self._left = NODES_MAX

    def fields(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in node.items():
            plain.setdefault(key.partition("(")[0], self._value(value, depth))
        return plain

    def _value(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        self._left -= 1
        if not depth or self._left < 0:
            return None
        if isinstance(value, list):
            return [self._value(entry, depth) for entry in value]
        return self.fields(self._entity(value), depth - 1)

    def _entity(self, value: dict[str, Any]) -> dict[str, Any]:
        """What a reference means; another object means itself."""
        name = value.get("__ref") or (value.get("id") if value.get("type") == "id" else None)
        entity = self._entities.get(name) if isinstance(name, str) else None
        return entity if isinstance(entity, dict) else value
