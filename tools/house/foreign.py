"""Where the package uses what a dependency does not document: private names, submodules that are
not public, and changes to a dependency's own objects.

Not found: a change through a variable that holds a dependency's object (`h = urls.handlers`).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from tools.house.modules import PACKAGE, Module

# Documented: named tuples, and the end of a process without clean-up.
DOCUMENTED = {"_asdict", "_fields", "_make", "_replace", "_exit"}
# Python adds these to each class of some kinds.
ADDED = {"_abc_impl", "_is_protocol"}
# What a method gives to its object.
GIVEN = re.compile(r"\bself\.(\w+)\b[^=\n]* = ")
CHANGING = {
    *("append", "extend", "insert", "remove", "update", "clear", "pop", "setdefault"),
    *("add", "discard", "popitem", "reverse", "sort", "__setitem__", "__delitem__"),
}
# These take names as texts.
BY_NAME = {
    *("getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller"),
    *("__getattribute__", "__setattr__", "__delattr__", "getattr_static"),
}
SETTING = {"setattr", "delattr", "__setattr__", "__delattr__"}
IMPORTING = {"import_module", "__import__"}
# The submodules that a program may import, by the documentation of their packages.
SUBMODULES = {
    "aiohttp": "abc web",
    "alembic": "command config context op script util util.exc",
    "boto3": "exceptions session",
    "botocore": "config exceptions",
    "celery": "app app.amqp app.events beat bootsteps events events.dispatcher signals worker "
    "worker.consumer worker.state",
    "cryptography": "fernet",
    "dateutil": "parser tz",
    "flower": "options",
    "kombu": "exceptions transport transport.pyamqp transport.redis",
    "lxml": "etree",
    "opentelemetry": "exporter.otlp.proto.http.trace_exporter sdk.resources sdk.trace "
    "sdk.trace.export trace",
    "playwright": "async_api",
    "prometheus_client": "core registry",
    "psycopg": "conninfo errors pq",
    "pyarrow": "parquet",
    "pydantic": "fields",
    "rapidfuzz": "fuzz",
    "redis": "asyncio asyncio.retry asyncio.sentinel backoff client exceptions retry sentinel",
    "rich": "cells console live progress table text",
    "selectolax": "lexbor",
    "sqlalchemy": "dialects dialects.postgresql event exc orm pool",
    "structlog": "contextvars dev processors stdlib",
    "tornado": "httputil options template web",
    "w3lib": "encoding html url",
    "warcio": "archiveiterator statusandheaders warcwriter",
}


class Found(NamedTuple):
    module: str
    name: str
    line: int


def is_foreign(module: str) -> bool:
    top = module.partition(".")[0]
    return top != "scraper" and top not in sys.stdlib_module_names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


@cache
def is_submodule(name: str) -> bool:
    try:
        return "." in name and find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def names_made(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every name that these nodes give to something."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs, in no order: annotations are never evaluated."""
    remaining = [tree]
    while remaining:
        node = remaining.pop()
        yield node
        annotation, returns = getattr(node, "annotation", None), getattr(node, "returns", None)
        remaining.extend(
            child
            for child in ast.iter_child_nodes(node)
            if child is not annotation and child is not returns
        )


def find_in_source(module: str, tree: ast.Module, made: set[str]) -> Iterator[Found]:
    """`made` are the names of the whole package, which its own classes inherit."""
    nodes = list(without_annotations(tree))
    imported: dict[str, str] = {}
    made_here = set(names_made(nodes))
    for node in nodes:
        match node:
            case ast.Attribute(value=owner, attr=name, lineno=line) if is_private(name):
                if name not in (made if is_own_object(owner) else made_here):
                    yield Found(module, name, line)
            case ast.Import(names=aliases):
                for alias in aliases:
                    imported[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
                    yield from find_in_import(module, alias.name, node.lineno)
            case ast.ImportFrom(module=str() as source, names=aliases, level=0):
                yield from find_in_import(module, source, node.lineno)
                for alias in aliases:
                    imported[alias.asname or alias.name] = whole = f"{source}.{alias.name}"
                    if is_foreign(source) and (is_private(alias.name) or is_submodule(whole)):
                        yield from find_in_import(module, whole, node.lineno)
            case ast.Call(func=function, args=args):
                is_own = bool(args) and is_own_object(args[0])
                for found in find_in_call(module, name_of(function), args):
                    if not (is_own and found.name in made):
                        yield found
            case ast.Subscript(value=ast.Attribute(attr="__dict__"), slice=key):
                yield from find_in_call(module, "getattr", [key])
            case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=key):
                yield from find_in_call(module, "getattr", [key])
    yield from find_changes(module, nodes, imported)


def is_own_object(owner: ast.expr) -> bool:
    match owner:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def is_documented(module: str) -> bool:
    top, _, submodule = module.partition(".")
    return not submodule or submodule in SUBMODULES.get(top, "").split()


def name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def find_in_import(module: str, source: str, line: int) -> Iterator[Found]:
    parts = source.split(".")
    if parts[0] == "unittest" or (
        is_foreign(source) and (any(map(is_private, parts)) or not is_documented(source))
    ):
        yield Found(module, source, line)


def find_in_call(module: str, function: str, args: list[ast.expr]) -> Iterator[Found]:
    """Names and modules that are given as texts."""
    texts = [x for x in args if isinstance(x, ast.Constant) and isinstance(x.value, str)]
    for text in texts:
        if function in BY_NAME:
            for part in filter(is_private, str(text.value).split(".")):
                yield Found(module, part, text.lineno)
        elif function in IMPORTING:
            yield from find_in_import(module, str(text.value), text.lineno)


def find_changes(module: str, nodes: list[ast.AST], imported: dict[str, str]) -> Iterator[Found]:
    """Changes to what is imported, and submodules that are reached through their package."""
    for node in nodes:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                target: ast.expr = node
            case ast.Subscript(value=target, ctx=ast.Store() | ast.Del()):
                pass
            case ast.Call(func=function, args=[target, *_]) if name_of(function) in SETTING:
                pass
            case ast.Attribute(value=target, attr=name) if name in CHANGING:
                if is_module(ast.unparse(target), imported):
                    continue
            case ast.Attribute():
                whole = in_full(ast.unparse(node), imported)
                if whole and is_foreign(whole) and is_submodule(whole):
                    yield from find_in_import(module, whole, node.lineno)
                continue
            case _:
                continue
        text = ast.unparse(target).removeprefix("vars(").partition("[")[0].removesuffix(")")
        whole = in_full(text, imported)
        if whole == "sys.modules" or (whole and is_foreign(whole)):
            yield Found(module, text, node.lineno)


def in_full(text: str, imported: dict[str, str]) -> str:
    """Returns `kombu.Queue.bind` for `k.Queue.bind`; nothing for what is not imported."""
    root, dot, rest = text.partition(".")
    return imported[root] + dot + rest if root in imported else ""


def is_module(text: str, imported: dict[str, str]) -> bool:
    whole = in_full(text, imported)
    return whole in sys.modules or is_submodule(whole)


@cache
def names_given_in(module: str) -> set[str]:
    """What the methods of all of a module's classes give to objects."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        source = ""
    return set(GIVEN.findall(source))


@cache
def names_in_class(base: type) -> set[str]:
    """What a class has, and what its methods give to each object."""
    try:
        source = inspect.getsource(base)
    except (OSError, TypeError):
        source = ""
    return {*vars(base), *GIVEN.findall(source)}


def has_name(base: type, name: str) -> bool:
    """Looks at the whole module first, since a class is cut out of its module by parsing it."""
    return name in vars(base) or (
        name in names_given_in(base.__module__) and name in names_in_class(base)
    )


def find_in_classes(modules: dict[str, Module]) -> Iterator[Found]:
    """Private names of a foreign base that a class of the package uses or replaces."""
    for info in pkgutil.walk_packages([str(PACKAGE)], "scraper."):
        if info.name.endswith("__main__"):
            continue
        for made in list(vars(importlib.import_module(info.name)).values()):
            if not (isinstance(made, type) and made.__module__ == info.name):
                continue
            bases = [base for base in made.__mro__[1:] if is_foreign(base.__module__)]
            classes = {node.name: node for node in modules[info.name].classes}
            tree = classes.get(made.__name__)
            if not bases or tree is None:
                continue
            used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            for name in {n for n in used | vars(made).keys() if is_private(n)} - ADDED:
                if any(has_name(base, name) for base in bases):
                    yield Found(info.name, name, 0)
