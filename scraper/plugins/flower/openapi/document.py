"""The JSON of the tab as an OpenAPI document, written from the routes, from what their handlers
declare (PARAMETERS, PATH_NAMES, `summarize` and `list_keys`) and from the schemas of answers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

from scraper.plugins.flower.access.roles import needed_role
from scraper.plugins.flower.handlers.base import ApiHandler
from scraper.plugins.flower.openapi.schemas import DONE, AnswerSchemas, load_schemas

METHODS = ("get", "post")
_GROUP = re.compile(r"\(([^()]*)\)")
_WORDS = re.compile(r"[a-z_-]+(?:\|[a-z_-]+)*").fullmatch
_TYPES = {int: "integer", str: "string", bool: "boolean"}
ERRORS = {
    "400": "the request does not fit",
    "401": "no login, or a wrong one",
    "403": "the role is not enough, or the token of the page is missing",
    "404": "no such thing",
    "409": "refused, with the reason",
    "413": "the body is too large",
    "503": "PostgreSQL does not answer; try again after Retry-After",
}
ABOUT = (
    "What the Crawls tab reads and does. A script sends `Authorization: Bearer TOKEN`, of "
    "`scraper users add NAME --role ROLE --token`; `x-role` is the role that an operation needs. "
    'All errors are `{"error": TEXT}`.'
)


def make_document(routes: Sequence[Any], prefix: str = "") -> dict[str, Any]:
    """Returns the document of the routes that answer with JSON or files. `prefix`: Flower's path
    behind a proxy."""
    paths: dict[str, dict[str, Any]] = {}
    schemas = load_schemas()
    for route in routes:
        if issubclass(route.handler_class, ApiHandler):
            for path, words in expand_pattern(route.regex.pattern, route.handler_class.PATH_NAMES):
                paths[path] = dict(_describe_methods(route.handler_class, path, words, schemas))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Scraper", "version": version("celery-scraper"), "description": ABOUT},
        "servers": [{"url": f"/{prefix.strip('/')}" if prefix.strip("/") else "/"}],
        "security": [{"token": []}, {"password": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
            "schemas": schemas.named,
        },
    }


def expand_pattern(pattern: str, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the paths of a route, one for each word of a choice, and these words. `names`: of the
    other groups.

    >>> list(expand_pattern(r"/api/x/(\\d+)/(stop|pause)$", ["id"]))
    [('/api/x/{id}/stop', ['stop']), ('/api/x/{id}/pause', ['pause'])]
    """
    parts = _GROUP.split(pattern.removesuffix("$").replace("\\", "\x00"))
    literals = [part.replace("\x00", "") for part in parts[::2]]
    left = iter(names)
    groups = [
        text.split("|") if _WORDS(text := group.replace("\x00", "")) else [f"{{{next(left)}}}"]
        for group in parts[1::2]
    ]
    for chosen in itertools.product(*groups):
        path = "".join(itertools.chain(*zip(literals, (*chosen, ""), strict=True)))
        yield path, [word for word in chosen if not word.startswith("{")]


def _describe_methods(
    handler: type[ApiHandler], path: str, words: Sequence[str], schemas: AnswerSchemas
) -> Iterable[tuple[str, dict[str, Any]]]:
    for method in METHODS:
        if not has_method(handler, method):
            continue
        content = _describe_answer(handler, method, path, schemas)
        answers = {"200": {"description": "the answer", "content": content}}
        answers |= {
            code: {"description": text, "content": _refer_error()} for code, text in ERRORS.items()
        }
        operation: dict[str, Any] = {
            "operationId": re.sub(r"\W+", "_", f"{method} {path}").strip("_"),
            "tags": [_choose_tag(path)],
            "summary": handler.summarize(words),
            "x-role": needed_role(method.upper(), re.sub(r"\{\w+\}", "1", path)),
            "parameters": [
                *(_describe_name(name) for name in re.findall(r"\{(\w+)\}", path)),
                *(parameter.describe() for parameter in handler.PARAMETERS if method == "get"),
                *_describe_query(schemas.queries.get(path, {})),
            ],
            "responses": answers,
        }
        if method == "post":
            operation["requestBody"] = _describe_body(handler, words, schemas.bodies.get(path))
        yield method, operation


def _choose_tag(path: str) -> str:
    """Returns the group of an operation: a word of its path."""
    return path.removeprefix("/crawls").split("/")[2].partition(".")[0]


def has_method(handler: type[ApiHandler], method: str) -> bool:
    return getattr(handler, method) is not getattr(ApiHandler, method)


def _describe_answer(
    handler: type[ApiHandler], method: str, path: str, schemas: AnswerSchemas
) -> dict[str, Any]:
    types = {"csv": "text/csv", "jsonl": "application/x-ndjson", "atom": "application/atom+xml"}
    kind = handler.ANSWER_TYPE or types.get(path.rpartition(".")[2], "application/json")
    if kind != "application/json":
        return {kind: {"schema": {}}}
    return {kind: {"schema": schemas.answers.get((method, path), DONE)}}


def _refer_error() -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


def _describe_name(name: str) -> dict[str, Any]:
    kind = "integer" if name == "crawl" else "string"
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind}}


def _describe_query(query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, schema in query.items():
        about = schema["description"]
        kind = {"type": schema["type"]}
        yield {"name": name, "in": "query", "description": about, "required": False, "schema": kind}


def _describe_body(
    handler: type[ApiHandler], words: Sequence[str], schema: dict[str, Any] | None
) -> dict[str, Any]:
    """`schema`: that of a page's action; None for the tab's own, whose keys may all be left out."""
    if schema is None:
        keys = handler.list_keys(words)
        properties = {name: {"type": _TYPES[kind]} for name, kind in keys.items()}
        schema = {"type": "object", "properties": properties}
    if "properties" in schema:
        schema = {**schema, "additionalProperties": False}
    return {"content": {"application/json": {"schema": schema}}}
