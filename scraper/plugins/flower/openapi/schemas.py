"""What the tab's JSON looks like: JSON Schemas in a file `answers.json` next to the code that
answers, the tab's own here and those of other plug-ins' pages in their folders.

A file has `schemas` by name, to which all files may refer, and `answers`: of the tab by path, of a
page by action, `read` for its GET. A page may also have `bodies` by action, and `query`, the
parameters of its GET. All properties are required, unless a schema says which are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scraper.plugins.flower.tab_pages import all_actions, answers_of, tab_pages

OWN = Path(__file__).with_name("answers.json")
DONE = {"$ref": "#/components/schemas/Done"}
ANY = {"type": "object"}
Schema = dict[str, Any]


@dataclass(slots=True)
class AnswerSchemas:
    """The schemas by name; of answers by method and path; of bodies and queries by path."""

    named: dict[str, Schema] = field(default_factory=dict)
    answers: dict[tuple[str, str], Schema] = field(default_factory=dict)
    bodies: dict[str, Schema] = field(default_factory=dict)
    queries: dict[str, dict[str, Schema]] = field(default_factory=dict)


def load_schemas() -> AnswerSchemas:
    """Returns the schemas of all files."""
    own = _load_file(OWN)
    answers = {("get", path): schema for path, schema in own["answers"].items()}
    loaded = AnswerSchemas(own["schemas"], answers)
    for name, page in tab_pages().items():
        file = answers_of(page)
        text = {} if file is None else _load_file(file)
        path, given = f"/crawls/api/{name}", text.get("answers", {})
        loaded.named |= text.get("schemas", {})
        loaded.queries[path] = text.get("query", {})
        loaded.answers["get", path] = given.get("read", ANY)
        for action in all_actions(page):
            loaded.answers["post", f"{path}/{action}"] = given.get(action, DONE)
            loaded.bodies[f"{path}/{action}"] = text.get("bodies", {}).get(action, ANY)
    return loaded


def _load_file(file: Path) -> dict[str, Any]:
    text: dict[str, Any] = json.loads(file.read_text("utf-8"))
    _require_properties(text)
    return text


def _require_properties(schema: object) -> None:
    """Requires all properties of the objects in a schema that do not say which they require."""
    if isinstance(schema, list):
        for part in schema:
            _require_properties(part)
    elif isinstance(schema, dict):
        if isinstance(names := schema.get("properties"), dict) and names:
            schema.setdefault("required", list(names))
        for part in schema.values():
            _require_properties(part)
