"""Answers of the tab's JSON against the OpenAPI document, strictly: nothing is there that the
document does not name, and all that it names was there once."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
from jsonschema import Draft202012Validator, FormatChecker

FORMATS = FormatChecker(formats=())
NAMED = "#/components/schemas/"


@FORMATS.checks("date-time", raises=ValueError)
def is_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


class Described:
    """The document, and the parts that were seen: operations that succeeded, and properties with a value
    as `Schema.property`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.paths: dict[str, dict[str, Any]] = document["paths"]
        self.components = copy.deepcopy(document["components"])
        close_objects(self.components)
        self.operations: set[tuple[str, str]] = set()
        self.properties: set[str] = set()

    def note(self, sent: httpx.Request, body: object, answer: httpx.Response) -> None:
        """Checks a request and its answer."""
        path, operation = self.find_operation(sent.method.lower(), sent.url.path)
        known = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
        assert set(sent.url.params) <= known, (path, sent.url)
        if sent.method == "POST":
            content = operation["requestBody"]["content"]["application/json"]
            self.check(content["schema"], body, f"{path} {body}")
        described = operation["responses"][str(answer.status_code)]
        schema = described["content"]["application/json"]["schema"]
        self.check(schema, answer.json(), f"{path} {answer.status_code}")
        self.see(schema, answer.json(), path)
        if answer.status_code == 200:
            self.operations.add((sent.method.lower(), path))

    def find_operation(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        for template, methods in self.paths.items():
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method in methods:
                return template, methods[method]
        raise AssertionError(f"{method} {path} is not described")

    def check(self, schema: dict[str, Any], value: object, where: str) -> None:
        errors = [
            f"{where}: {'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
            for error in self.validator(schema).iter_errors(value)
        ]
        assert not errors, "\n".join(errors[:10])

    def validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        whole = {**copy.deepcopy(schema), "components": self.components}
        return Draft202012Validator(whole, format_checker=FORMATS)

    def see(self, schema: dict[str, Any], value: Any, name: str) -> None:
        """Notes the properties that have a value."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(NAMED)
            self.see(self.components["schemas"][name], value, name)
        elif "anyOf" in schema:
            fitting = [one for one in schema["anyOf"] if self.validator(one).is_valid(value)]
            assert len(fitting) == 1, (name, value)
            self.see(fitting[0], value, name)
        elif isinstance(value, list):
            for item in value:
                self.see(schema["items"], item, name)
        elif isinstance(value, dict):
            named, more = schema.get("properties", {}), schema.get("additionalProperties")
            for key, item in value.items():
                inner = named.get(key, more)
                if key in named and item is not None:
                    self.properties.add(f"{name}.{key}")
                if inner:
                    self.see(inner, item, f"{name}.{key}")

    def list_operations(self) -> set[tuple[str, str]]:
        """Returns the operations that answer with JSON."""
        return {
            (method, path)
            for path, methods in self.paths.items()
            for method, operation in methods.items()
            if "application/json" in operation["responses"]["200"]["content"]
        }

    def list_properties(self) -> set[str]:
        """Returns the properties of all named schemas."""
        return {
            f"{name}.{key}"
            for name, schema in self.components["schemas"].items()
            for key in schema.get("properties", {})
        }

    def list_references(self) -> set[str]:
        """Returns the named schemas that an answer or another schema refers to."""
        return set(find_references([self.paths, self.components]))


def close_objects(schema: object) -> None:
    """Refuses properties that are not named."""
    for part in schema.values() if isinstance(schema, dict) else ():
        close_objects(part)
    for part in schema if isinstance(schema, list) else ():
        close_objects(part)
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)


def find_references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].removeprefix(NAMED)
        for inner in part.values():
            yield from find_references(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from find_references(inner)
