"""The package uses only what its dependencies document. What it uses otherwise is named here, with
the reason, and the dependency has an upper bound: its next release is tried before it is allowed."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

import scraper
from tools.house.modules import PACKAGE, Module, modules_below
from tools.house.references import dotted

pytestmark = pytest.mark.parses
# Documented: named tuples, and the end of a process without clean-up.
DOCUMENTED = {"_asdict", "_fields", "_make", "_replace", "_exit"}
# Python adds these to each class of some kinds.
ADDED = {"_abc_impl", "_is_protocol"}
# What a method gives to its object.
GIVEN = re.compile(r"\bself\.(\w+)\b[^=\n]* = ")
CHANGING = {"append", "extend", "insert", "remove", "update", "clear", "pop", "setdefault"}
# What of these a program may import, by their documentation.
SUBMODULES = {
    "aiohttp": {"abc", "web"},
    "amqp": set(),
    "curl_cffi": {"requests", "const"},
    "flower": {"command", "options"},
    "httpx": set(),
}


class Exempt(NamedTuple):
    dependency: str
    names: frozenset[str]
    reason: str


def exempt(dependency: str, names: str, reason: str) -> Exempt:
    return Exempt(dependency, frozenset(names.split()), reason)


EXEMPT: dict[str, Exempt] = {
    "scraper.http.transport.aiohttp_protocol": exempt(
        "aiohttp",
        "_drop_timeout _factory _loop _on_read_timeout _payload _read_timeout _read_timeout_handle "
        "_reading_paused _reschedule_timeout aiohttp.client_proto aiohttp.http_exceptions",
        "bounds interim answers and chunk extensions, which its session does not",
    ),
    "scraper.http.transport.aiohttp_transport": exempt(
        "aiohttp",
        "aiohttp.connector aiohttp.http_exceptions aiohttp.http_parser aiohttp.streams",
        "a request without its session takes half of the CPU time",
    ),
    "scraper.http.transport.proxied_transport": exempt(
        "aiohttp",
        "_create_connection _factory _ssl aiohttp.client_proto aiohttp.tracing",
        "its connector knows no SOCKS5, and does not say which proxy is at fault",
    ),
    "scraper.http.transport.tunnel": exempt(
        "python",
        "_force_close",
        "asyncio of Python 3.11.6 and 3.12.0 fails where TLS inside of TLS is aborted",
    ),
    "scraper.infra.database": exempt(
        "psycopg",
        "_prepared",
        "it forgets all that is prepared after each transaction that only reads",
    ),
    "scraper.plugins.flower.access.senders": exempt(
        "flower",
        "flower.app flower.utils.authentication",
        "Flower's own check of OAuth's addresses decides whose session counts",
    ),
    "scraper.plugins.flower.guard": exempt(
        "flower",
        "Flower.find_handler Flower.start_http_server flower.app options.address "
        "options.basic_auth urls.settings flower.views BaseHandler.get_current_user",
        "Flower listens to all addresses and asks for no login by default",
    ),
    "scraper.plugins.flower.handlers.base": exempt(
        "flower", "_reason flower.views", "the tab's pages have the login and the frame of Flower"
    ),
    "scraper.plugins.flower.tab": exempt(
        "flower",
        "_create_template flower.views.error flower.views.monitor urls.handlers urls.settings",
        "Flower has no hook for pages of others, nor for its navigation",
    ),
    "scraper.plugins.impersonate.hooks": exempt(
        "curl_cffi",
        "_curl_easy_setopt",
        "libcurl's hooks for sockets, by which the address guard checks each connection",
    ),
    "scraper.plugins.impersonate.transport": exempt(
        "curl_cffi", "_is_cert_set", "certificates of SSL_CERT_FILE take the place of its own"
    ),
    "scraper.process.shutdown": exempt(
        "celery", "state.should_stop", "Celery documents no way to end a worker from inside"
    ),
    "scraper.runtime.consumer": exempt(
        "celery", "_flush_events _publish", "events are sent in groups, and never wait for a broker"
    ),
    "scraper.runtime.rabbitmq_transport": exempt(
        "amqp",
        "serialization.PROPERTY_CLASSES",
        "a header of an unknown type breaks one message, not the connection",
    ),
    "scraper.runtime.redis_transport": exempt(
        "kombu",
        "_brpop_read _brpop_sent_at _brpop_start _create_client _deliver _do_restore_message "
        "_fanout_to_queue _handle_message _in_listen _in_poll _q_for_pri _queue_cycle _receive_one "
        "_remove_from_indices",
        "reads the most urgent queues while the worker has room for their batches",
    ),
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


def names_made_here(modules: Iterable[Module]) -> set[str]:
    """Every name that the package itself gives to something."""
    made = set()
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    made.add(name)
                case ast.ClassDef(name=name) | ast.arg(arg=name):
                    made.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    made.add(name)
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                    made.add(name)
                case ast.Constant(value=str() as name):
                    made.add(name)
    return made


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
    imported: set[str] = set()
    nodes = list(without_annotations(tree))
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, lineno=line) if is_private(name) and name not in made:
                yield Found(module, name, line)
            case ast.Import(names=aliases):
                for alias in aliases:
                    if is_foreign(alias.name):
                        imported.add((alias.asname or alias.name).partition(".")[0])
                        yield from find_in_import(module, alias.name, node.lineno)
            case ast.ImportFrom(module=str() as source, names=aliases, level=0):
                if is_foreign(source):
                    imported.update(alias.asname or alias.name for alias in aliases)
                    yield from find_in_import(module, source, node.lineno)
                    for alias in aliases:
                        if is_private(alias.name):
                            yield Found(module, alias.name, node.lineno)
    for node in nodes:
        match node:
            case ast.Assign(targets=targets):
                changed: list[Any] = [x for x in targets if not isinstance(x, ast.Name)]
            case ast.AugAssign(target=ast.Attribute() | ast.Subscript() as target):
                changed = [target]
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as owner, attr=name)) if (
                name in CHANGING
            ):
                changed = [owner]
            case _:
                continue
        for target in changed:
            text = ast.unparse(target).partition("[")[0]
            if "." in text and text.partition(".")[0] in imported:
                yield Found(module, text, node.lineno)


def find_in_import(module: str, source: str, line: int) -> Iterator[Found]:
    top, *rest = source.split(".")
    if any(is_private(part) for part in rest) or (
        rest and top in SUBMODULES and rest[0] not in SUBMODULES[top]
    ):
        yield Found(module, source, line)


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
    for info in pkgutil.walk_packages(scraper.__path__, "scraper."):
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


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    migrations = [Module(path) for path in sorted(PACKAGE.rglob("migrations/*.py"))]
    modules = {dotted(module): module for module in [*modules_below(PACKAGE), *migrations]}
    made = names_made_here(modules.values())
    names = defaultdict(set)
    for name, module in modules.items():
        for use in find_in_source(name, module.tree, made):
            names[use.module].add(use.name)
    for use in find_in_classes(modules):
        names[use.module].add(use.name)
    return names


def test_the_package_uses_what_its_dependencies_document(found: dict[str, set[str]]) -> None:
    assert {module: sorted(names) for module, names in found.items()} == {
        module: sorted(entry.names) for module, entry in EXEMPT.items()
    }


@pytest.mark.parametrize(
    "dependency", sorted({entry.dependency for entry in EXEMPT.values()} - {"python"})
)
def test_what_is_not_public_has_an_upper_bound(dependency: str) -> None:
    project = (PACKAGE.parent / "pyproject.toml").read_text()
    bounds = re.search(rf'"{re.escape(dependency)}(?:\[\w+\])?([<>=][^"]*)"', project)
    assert bounds is not None and "<" in bounds[1]


def test_each_exception_says_why() -> None:
    assert all(len(entry.reason.split()) > 3 for entry in EXEMPT.values())


@pytest.mark.parametrize(
    "source",
    [
        "import kombu\nkombu.Queue._decode",
        "from kombu import Queue\nQueue.bind = None",
        "from kombu import Queue\nQueue.names[1:] = []",
        "from kombu import Queue\nQueue.names.append(1)",
        "from kombu import _version",
        "import kombu._version",
        "from kombu._version import x",
        "from aiohttp.client_proto import ResponseHandler",
    ],
)
def test_a_use_of_what_is_not_public_is_found(source: str) -> None:
    assert list(find_in_source("scraper.x", ast.parse(source), set()))


@pytest.mark.parametrize(
    "source",
    [
        "from kombu import Queue\nself._queue = Queue()",
        "from lxml import etree\ndef f(x: etree._Element) -> None: ...",
        "row._asdict()",
        "from aiohttp import web",
        "from aiohttp.abc import AbstractResolver",
        "import os\nos._exit(1)",
    ],
)
def test_a_use_of_what_is_public_is_not(source: str) -> None:
    assert not list(find_in_source("scraper.x", ast.parse(source), {"_queue"}))
