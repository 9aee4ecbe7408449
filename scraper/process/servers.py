"""Checks that PostgreSQL, Redis and the broker answer, and says what to type if they do not.

Starts no server (`scraper.plugins.embedded.servers` does). Messages contain no passwords. Clients
are imported where they are needed: no command needs all of them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra.redaction import mask_passwords, scrub_error
from scraper.settings import Settings

CONNECT_TIMEOUT_S = 3


def require_reachable(settings: Settings) -> None:
    """Raises `ServerUnavailableError` for the first of PostgreSQL, Redis and the broker that does
    not answer, and `ConfigError` as `require_redis` does."""
    require_postgres(settings)
    require_redis(settings)
    if settings.broker_url is not None:
        require_broker(settings)


def require_postgres(settings: Settings) -> None:
    """Connects once. Raises `ServerUnavailableError` with the address and the remedy."""
    import psycopg

    url, embedded = settings.postgres_url, settings.database_url is None
    with _report_away("PostgreSQL", url, "DATABASE_URL", psycopg.Error, embedded=embedded):
        psycopg.connect(libpq_url(settings), connect_timeout=CONNECT_TIMEOUT_S).close()


def require_redis(settings: Settings) -> None:
    """Pings once. Raises `ServerUnavailableError` with the address and the remedy, and
    `ConfigError` for a server that may lose keys, or that belongs to a cluster."""
    _ping_redis(settings.valkey_url, "Redis", "REDIS_URL", embedded=settings.redis_url is None)


def require_broker(settings: Settings) -> None:
    """Connects once to the broker, Redis or RabbitMQ. Raises `ServerUnavailableError` with the
    address (no password) and the remedy, and `ConfigError` as `require_redis` does."""
    url = settings.broker_url
    if url is None:
        require_redis(settings)
    elif not settings.broker_is_amqp:
        _ping_redis(url, "the broker", "BROKER_URL")
    else:
        _connect_to_rabbitmq(url)


def _connect_to_rabbitmq(url: str) -> None:
    import amqp
    from kombu import Connection  # type: ignore[attr-defined]

    waits = dict.fromkeys(("read_timeout", "write_timeout"), CONNECT_TIMEOUT_S)
    options = {"ssl": broker_tls(url), "connect_timeout": CONNECT_TIMEOUT_S}
    broker = Connection(url, transport_options=waits, **options)  # type: ignore[no-untyped-call]
    with _report_away("the broker (RabbitMQ)", url, "BROKER_URL", amqp.AMQPError), broker:
        broker.connect()  # type: ignore[no-untyped-call]


def broker_tls(url: str) -> dict[str, Any] | None:
    """Returns kombu's options for amqps and rediss, which verify the server's certificate, unlike
    its defaults; None without TLS. What a URL of Redis says itself takes precedence."""
    if url.startswith("rediss://"):
        return {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    if not url.startswith("amqps://"):
        return None
    paths = ssl.get_default_verify_paths()
    ca, host = paths.cafile or paths.openssl_cafile, urlsplit(url).hostname or "localhost"
    return {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": ca, "server_hostname": host}


def _ping_redis(url: str, name: str, variable: str, *, embedded: bool = False) -> None:
    from scraper.infra.redis_clients import NoPermissionError, RedisError, connect

    state: dict[str, Any] = {}
    with (
        _report_away(name, url, variable, RedisError, embedded=embedded),
        connect(url, timeout_s=CONNECT_TIMEOUT_S) as client,
    ):
        client.ping()
        with suppress(NoPermissionError):
            state = client.info()
    policy = state.get("maxmemory_policy", "noeviction")
    if "sentinel" in (state.get("redis_mode"), state.get("server_mode")):
        reason = "is a sentinel (fix: write sentinel://HOST:PORT/0?master_name=NAME)"
    elif state.get("cluster_enabled"):
        reason = (
            "is in a Redis Cluster, but scripts need all keys in one node (fix: use one primary)"
        )
    elif state.get("maxmemory") and policy != "noeviction":
        reason = f"drops keys when full: maxmemory-policy is {policy} (fix: set it to noeviction)"
    else:
        return
    raise ConfigError(f"{name} at {mask_passwords(url)} {reason}")


def libpq_url(settings: Settings) -> str:
    """Returns the database's URL without SQLAlchemy's driver name, as libpq reads it."""
    return settings.postgres_url.replace("postgresql+psycopg://", "postgresql://", 1)


@contextmanager
def _report_away(
    name: str, url: str, variable: str, kind: type[Exception], *, embedded: bool = False
) -> Iterator[None]:
    """Turns a client's errors into one with the address, without its password, and the remedy."""
    try:
        yield
    except (kind, OSError, ValueError) as error:
        remedy = (
            "It is an embedded server: start it with `scraper up`, or set {} to one of your own."
            if embedded
            else "Check {}, and that the server runs and is reachable from here."
        )
        raise ServerUnavailableError(
            f"{name} does not answer at {mask_passwords(url)}: {scrub_error(error, url)}\n"
            f"{remedy.format(variable)}"
        ) from None
