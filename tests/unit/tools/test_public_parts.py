"""The package uses only what its dependencies document. What it uses otherwise is named here, with
the reason, and the dependency has an upper bound: its next release is tried before it is allowed."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from importlib.metadata import packages_distributions, requires
from itertools import chain
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.house.foreign import find_in_classes, find_in_source, is_foreign, names_made
from tools.house.modules import PACKAGE, Module, modules_below
from tools.house.references import dotted

pytestmark = pytest.mark.parses
# Documented as parts of these packages, which ask for them: the addresses of aiohttp, the translator
# of parsel, the handlers of Flower, the certificates of httpx.
PARTS = {
    "botocore": "boto3",
    "certifi": "httpx",
    "cssselect": "parsel",
    "pydantic-core": "pydantic",
    "tornado": "flower",
    "yarl": "aiohttp",
}


class Exempt(NamedTuple):
    dependency: str
    names: frozenset[str]
    reason: str


def exempt(dependency: str, names: str, reason: str) -> Exempt:
    return Exempt(dependency, frozenset(names.split()), reason)


EXEMPT: dict[str, Exempt] = {
    "scraper.celery": exempt(
        "kombu", "TRANSPORT_ALIASES", "redis:// and amqp:// lead to the transports of this package"
    ),
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
    "scraper.plugins.archive.warc": exempt(
        "warcio", "warcio.exceptions", "what it raises at a record that cannot be read"
    ),
    "scraper.plugins.flower.access.senders": exempt(
        "flower",
        "flower.app flower.utils.authentication",
        "Flower's own check of OAuth's addresses decides whose session counts",
    ),
    "scraper.plugins.flower.guard": exempt(
        "flower",
        "Flower.find_handler Flower.start_http_server flower.app options.address "
        "options.basic_auth urls.settings flower.urls flower.views BaseHandler.get_current_user",
        "Flower listens to all addresses and asks for no login by default",
    ),
    "scraper.plugins.flower.handlers.base": exempt(
        "flower", "flower.views", "the tab's pages have the login and the frame of Flower"
    ),
    "scraper.plugins.flower.tab": exempt(
        "flower",
        "_create_template flower.urls flower.views.error flower.views.monitor urls.handlers urls.settings",
        "Flower has no hook for pages of others, nor for its navigation",
    ),
    "scraper.plugins.impersonate.hooks": exempt(
        "curl_cffi",
        "_curl _curl_easy_setopt",
        "libcurl's hooks for sockets, by which the address guard checks each connection",
    ),
    "scraper.plugins.impersonate.profiles": exempt(
        "curl_cffi",
        "curl_cffi.requests.impersonate",
        "curl_cffi documents no way to ask which profile of a browser is its newest",
    ),
    "scraper.plugins.sentinel.clients": exempt(
        "kombu", "TRANSPORT_ALIASES", "sentinel:// leads to the transport of this package"
    ),
    "scraper.process.shutdown": exempt(
        "celery", "state.should_stop", "Celery documents no way to end a worker from inside"
    ),
    "scraper.runtime.consumer": exempt(
        "celery", "_flush_events _publish", "events are sent in groups, and never wait for a broker"
    ),
    "scraper.runtime.pool": exempt(
        "celery",
        "celery.concurrency celery.concurrency.base celery.concurrency.thread",
        "decides which batch begins when, for which Celery has no hook",
    ),
    "scraper.runtime.rabbitmq_transport": exempt(
        "amqp",
        "amqp.serialization amqp.spec serialization.PROPERTY_CLASSES",
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


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    migrations = [Module(path) for path in sorted(PACKAGE.rglob("migrations/*.py"))]
    modules = {dotted(module): module for module in [*modules_below(PACKAGE), *migrations]}
    made = {name for module in modules.values() for name in names_made(module.nodes)}
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


def test_a_part_of_a_package_comes_with_it() -> None:
    for part, package in PARTS.items():
        asked = {canonicalize_name(Requirement(text).name) for text in requires(package) or ()}
        assert part in asked, package


def test_the_package_asks_for_what_it_imports() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {canonicalize_name(Requirement(text).name) for text in asked} | PARTS.keys()
    imported = {name.partition(".")[0] for m in modules_below(PACKAGE) for _, name in m.imports()}
    sources = packages_distributions()
    assert [
        top
        for top in sorted(filter(is_foreign, imported))
        if names.isdisjoint(map(canonicalize_name, sources.get(top, [])))
    ] == []


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
        "from aiohttp import client_proto",
        "import aiohttp\naiohttp.client_proto.ResponseHandler",
        "from curl_cffi.requests.session import AsyncSession",
        "from importlib import import_module\nimport_module('kombu._version')",
        "self._queue._payload",
        "getattr(queue, '_payload')",
        "vars(queue)['_payload']",
        "attrgetter('queue._payload')",
        "from kombu import Queue\nsetattr(Queue, 'bind', None)",
        "from kombu import Queue\ntype.__setattr__(Queue, 'bind', None)",
        "from kombu import Queue\ndel Queue.bind",
        "from kombu import Queue\nQueue.bind: int = 1",
        "from kombu import Queue\nQueue.bind, x = None, 1",
        "from kombu import Queue\nvars(Queue).update(bind=None)",
        "from kombu.transport import TRANSPORT_ALIASES\nTRANSPORT_ALIASES['redis'] = ''",
        "from flower import urls\nadd = urls.handlers.append",
        "from unittest.mock import patch",
        "import sys\nsys.modules['kombu'] = None",
    ],
)
def test_a_use_of_what_is_not_public_is_found(source: str) -> None:
    assert list(find_in_source("scraper.x", ast.parse(source), {"_queue", "_payload"}))


@pytest.mark.parametrize(
    "source",
    [
        "from kombu import Queue\nself._queue = Queue()",
        "from lxml import etree\ndef f(x: etree._Element) -> None: ...",
        "row._asdict()",
        "from aiohttp import web",
        "from aiohttp.abc import AbstractResolver",
        "import os\nos._exit(1)",
        "object.__setattr__(self, '_queue', None)",
        "import sqlalchemy as sa\nsa.update(table)",
        "from kombu import Queue\nnames = Queue().names\nnames.append(1)",
    ],
)
def test_a_use_of_what_is_public_is_not(source: str) -> None:
    assert not list(find_in_source("scraper.x", ast.parse(source), {"_queue"}))
