"""Page state that GraphQL clients store by id (Apollo's `Product:123`), joined again under the
names of the page's queries. Pure."""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 10
NODES_MAX = 20_000
# How deep in a document such a state is searched for: `props.pageProps.apolloState`.
LOOKED_DEPTH = 5
_ROOT = "ROOT_QUERY"


def resolve_state(document: Any, depth: int = LOOKED_DEPTH) -> Any:
    """Returns the document with the results of its queries added, by the queries' names without
    arguments: `product({"id":1})` becomes `product`."""
    if not isinstance(document, dict) or not depth:
        return document
    if isinstance(document.get(_ROOT), dict):
        answers = _Resolver(document).resolve_fields(document[_ROOT], DEPTH_MAX)
        return {**answers, **document}
    for key, value in document.items():
        inner = resolve_state(value, depth - 1)
        if inner is not value:
            return {**document, key: inner}
    return document


class _Resolver:
    def __init__(self, entities: dict[str, Any]) -> None:
        self._entities = entities
        self._left = NODES_MAX

    def resolve_fields(self, node: dict[str, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in node.items():
            plain.setdefault(key.partition("(")[0], self._resolve_value(value, depth))
        return plain

    def _resolve_value(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        self._left -= 1
        if not depth or self._left < 0:
            return None
        if isinstance(value, list):
            # A list in a list is a level of its own.
            return [self._resolve_value(entry, depth - isinstance(entry, list)) for entry in value]
        return self.resolve_fields(self._find_entity(value), depth - 1)

    def _find_entity(self, value: dict[str, Any]) -> dict[str, Any]:
        """Returns the object that a reference names; any other object is returned unchanged."""
        name = value.get("__ref") or (value.get("id") if value.get("type") == "id" else None)
        entity = self._entities.get(name) if isinstance(name, str) else None
        return entity if isinstance(entity, dict) else value
