"""Every setting of the core, in one frozen `Settings`. `scraper.infra.setting_sources` says where
values come from: only these two modules read environment variables.

`DATABASE_URL` and `REDIS_URL` name servers of your own; with neither set, the embedded ones under
`SCRAPER_HOME` are meant (see `scraper.plugins.embedded.servers`, which starts them). Everything
else has a default that suits one machine."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from scraper import registry
from scraper.errors import ConfigError
from scraper.infra.services import find_sentinels
from scraper.infra.setting_sources import FromFiles, FromProject, variable
from scraper.registry import PROJECT_FILE
from scraper.sites.module_names import check_module_names, parse_module_names

# The process that a worker was started for, and is not to outlive.
ENDS_WITH = "SCRAPER_ENDS_WITH"
REDIS_SCHEMES = ("redis://", "rediss://", "unix://", "sentinel://")
BROKER_SCHEMES = ("amqp://", "amqps://", *REDIS_SCHEMES)
# sun_path holds 108 bytes on Linux and 104 on macOS, the terminating NUL included.
SOCKET_PATH_MAX = 100

SectionT = TypeVar("SectionT")


class CoreSettings(BaseSettings):
    """The settings of the core, each with its unit in its name. Frozen: read once a process."""

    model_config = SettingsConfigDict(
        env_prefix="SCRAPER_", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    home: Path = Field(
        Path(".scraper"), description="the folder of the embedded servers and local state"
    )
    sites_dir: Path = Field(
        Path("sites"), alias="SCRAPER_SITES", description="the folder of site definitions"
    )
    database_url: str | None = Field(
        None,
        alias="DATABASE_URL",
        description="PostgreSQL (`postgresql://user:password@host/db`); unset: the embedded one",
    )
    redis_url: str | None = Field(
        None,
        alias="REDIS_URL",
        description="Redis or Valkey (`redis://`, `rediss://`, `unix://`, `sentinel://`); "
        "unset: the embedded one",
    )
    broker_url: str | None = Field(
        None,
        alias="BROKER_URL",
        description="RabbitMQ (`amqp://`, with `;` between the nodes of a cluster, or `amqps://`) "
        "or another Redis, for the queues; unset: the Redis above",
    )
    rabbitmq_queues: Literal["classic", "quorum"] = Field(
        "classic", description="the type of queues of a RabbitMQ; quorum: replicated"
    )
    proxy_list: Path | None = Field(
        None,
        alias="PROXY_LIST",
        description="a secret file of proxies, one URL per line; reloaded when it changes",
    )
    plugins_off: str | None = Field(
        None, description="plug-ins that are switched off, by name, separated by commas"
    )
    schedules: bool = Field(
        True, description="false: a coordinator opens no scheduled crawls, but serves open ones"
    )
    user_agent: str = Field(
        "Mozilla/5.0 (compatible; scraper; shop catalogue crawler)",
        description=(
            "the User-Agent of sites without their own; include an address where shops "
            "can reach you"
        ),
    )
    site_functions: str | None = Field(
        None, description="modules whose functions site definitions may name"
    )
    lease_s: float = Field(
        45, ge=5, le=600, description="seconds that a silent worker keeps its pages"
    )
    batch_pages: int = Field(
        100, ge=1, le=1000, description="the maximum number of pages in one message"
    )
    horizon_s: float = Field(
        10, ge=1, le=30, description="the target duration of one batch, at most"
    )
    connect_timeout_s: float = Field(
        10, gt=0, description="the limit to open a connection, with DNS and TLS"
    )
    read_timeout_s: float = Field(20, gt=0, description="the limit between two reads of a body")
    page_timeout_s: float = Field(
        45, gt=0, description="the limit for a whole page, with redirects"
    )
    wire_max_bytes: int = Field(8_000_000, gt=0, description="the size limit of a compressed body")
    body_max_bytes: int = Field(16_000_000, gt=0, description="the size limit of an unpacked body")
    sitemap_max_bytes: int = Field(
        52_428_800, gt=0, description="the size limit of an unpacked sitemap (sitemaps.org: 50 MB)"
    )
    redirects_max: int = Field(8, ge=0, le=30, description="the maximum number of redirects")
    attempts_max: int = Field(
        4,
        ge=1,
        le=20,
        description="attempts before a page is dead; twice as many if its host is at fault",
    )
    stop_s: float = Field(
        20, ge=0, le=600, description="how long a stopping worker waits for pages in flight"
    )
    stalled_s: float = Field(
        21600,
        ge=60,
        description="a crawl without a tried or added page for this long ends as failed",
    )
    throughput_days: int = Field(
        14, ge=1, le=3650, description="how long the progress of crawls is kept"
    )
    changes_days: int = Field(30, ge=1, le=3650, description="how long the change feed is kept")
    away_s: float = Field(
        600,
        ge=10,
        description="how long a worker waits for PostgreSQL before it ends with exit code 3",
    )
    memory_max_mb: int = Field(
        1024, ge=0, description="the memory above which a process ends, to be restarted; 0: never"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="the minimum log level; Celery's -l is ignored"
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a tty, else json"
    )
    heartbeat: Path | None = Field(
        None, description="a file that a healthy coordinator, worker or beat touches each second"
    )

    def of(self, section: type[SectionT]) -> SectionT:
        """These settings as those of a plug-in, which names its class of them."""
        assert isinstance(self, section), f"{section.__name__} belongs to a plug-in that is off"
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        *sources: PydanticBaseSettingsSource,
        **named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        own = FromFiles(settings_cls), named["env_settings"], FromProject(settings_cls)
        return named["init_settings"], *own

    @classmethod
    def sources(cls) -> dict[str, str]:
        """Returns the origin of each value that is not a default, by the field's name."""
        files, project = FromFiles(cls)(), FromProject(cls)()
        origins = {}
        for name, field in cls.model_fields.items():
            key, env = field.alias or name, variable(name, field)
            if key in files:
                origins[name] = f"{env}_FILE"
            elif env in os.environ:
                origins[name] = env
            elif key in project:
                origins[name] = PROJECT_FILE
        return origins

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: Any, info: ValidationInfo) -> Any:
        """Treats an empty text as unset if the setting may be unset."""
        optional = cls.model_fields[str(info.field_name)].default is None
        return None if value == "" and optional else value

    @field_validator("database_url")
    @classmethod
    def _speaks_psycopg(cls, value: str | None) -> str | None:
        return None if value is None else name_driver(value)

    @field_validator("redis_url", "broker_url")
    @classmethod
    def _check_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        schemes = REDIS_SCHEMES if info.field_name == "redis_url" else BROKER_SCHEMES
        if not value and info.field_name == "broker_url":
            return None
        if value and value.startswith("sentinel://"):
            find_sentinels().broker_url(value)
        elif value and value.startswith("amqp://") and info.field_name == "broker_url":
            # The nodes of a cluster, as Celery writes them.
            if not all(node.startswith("amqp://") for node in value.split(";")):
                raise ValueError("each address between `;` must start with amqp://")
        elif value is not None and (not value.startswith(schemes) or ";" in value):
            raise ValueError(
                f"must be one address that starts with {', '.join(schemes)} (a Redis Cluster is "
                "not supported: scripts need all keys in one node)"
            )
        return value

    @field_validator("site_functions")
    @classmethod
    def _check_site_functions(cls, value: str | None) -> str | None:
        return check_module_names(value)

    @property
    def site_function_modules(self) -> tuple[str, ...]:
        """The allow-list of site definitions."""
        return parse_module_names(self.site_functions)

    @property
    def in_project(self) -> bool:
        """Returns whether this folder, or a setting, says where definitions and servers are."""
        return (
            Path(PROJECT_FILE).exists()
            or self.sites_dir.exists()
            or self.home.exists()
            or "home" in self.model_fields_set
            or not self.embedded
        )

    @property
    def embedded(self) -> bool:
        """Returns whether at least one server is embedded."""
        return self.database_url is None or self.redis_url is None

    @property
    def home_dir(self) -> Path:
        return self.home.absolute()

    @property
    def socket_dir(self) -> Path:
        """Returns the folder of the embedded servers' sockets: under home, or a short private
        folder if home's path is too long."""
        preferred = self.home_dir / "run"
        if len(str(preferred / ".s.PGSQL.5432.lock")) <= SOCKET_PATH_MAX:
            return preferred
        digest = hashlib.sha256(str(self.home_dir).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"scraper-{os.getuid()}-{digest}"

    @property
    def postgres_url(self) -> str:
        """SQLAlchemy URL of the database that is meant, embedded or not."""
        if self.database_url is not None:
            return self.database_url
        folder = quote(str(self.socket_dir), safe="")
        return f"postgresql+psycopg://scraper@/scraper?host={folder}&port=5432"

    @property
    def valkey_url(self) -> str:
        """redis-py URL of the Redis that is meant, embedded or not."""
        return self.redis_url or f"unix://{self.socket_dir / 'valkey.sock'}?db=0"

    @property
    def own_broker_url(self) -> str:
        """The broker's URL as the settings spell it."""
        return self.broker_url or self.valkey_url

    @property
    def celery_broker_url(self) -> str:
        """kombu's spelling of the broker: it wants redis+socket:// where redis-py wants unix://."""
        url = self.own_broker_url
        if url.startswith("sentinel://"):
            return find_sentinels().broker_url(url)
        if not url.startswith("unix://"):
            return url
        path, _, query = url.removeprefix("unix://").partition("?")
        return f"redis+socket://{path}?virtual_host={query.removeprefix('db=') or '0'}"

    @property
    def broker_is_amqp(self) -> bool:
        """RabbitMQ; otherwise it is a Redis."""
        return self.celery_broker_url.startswith("amqp")


if TYPE_CHECKING:

    class Settings(CoreSettings):
        """Every setting, of the core and of the plug-ins that are on."""

else:
    Settings = registry.extended("Settings", CoreSettings, "settings")


def name_driver(url: str) -> str:
    """Returns a postgres:// or postgresql:// URL as SQLAlchemy wants it: it names the driver, and
    has several hosts as parameters. Raises `ValueError` for another database."""
    for scheme in ("postgresql+psycopg://", "postgresql://", "postgres://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + move_hosts(url.removeprefix(scheme))
    raise ValueError(
        "must start with postgresql:// (PostgreSQL is the only database that is supported)"
    )


def move_hosts(url: str) -> str:
    """Writes `u:p@h1:5433,h2/db?x=y` as `u:p@/db?x=y&host=h1,h2&port=5433,5432`, which libpq reads
    too."""
    address, _, rest = url.partition("/")
    login, at, hosts = address.rpartition("@")
    if "," not in hosts:
        return url
    servers = [host if ":" in host else f"{host}:5432" for host in hosts.split(",")]
    names = ",".join(server.rpartition(":")[0] for server in servers)
    ports = ",".join(server.rpartition(":")[2] for server in servers)
    return f"{login}{at}/{rest}{'&' if '?' in rest else '?'}host={names}&port={ports}"


@lru_cache(maxsize=1)
def load() -> Settings:
    """Reads the environment once. Raises `ConfigError` with one line per wrong variable."""
    registry.require_known_off()
    try:
        return Settings()
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False, include_url=False):
            name = str(problem["loc"][0])
            env = name if name.isupper() else f"SCRAPER_{name.upper()}"
            short = env.lower().removeprefix("scraper_")
            in_file = not (os.environ.get(env) or os.environ.get(f"{env}_FILE"))
            where = f"{PROJECT_FILE}: {short}" if in_file else f"environment variable {env}"
            lines.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
        raise ConfigError("\n".join(lines)) from None


def ends_with() -> int | None:
    """The parent that this process is not to outlive, by its id, where there is one."""
    parent = os.environ.pop(ENDS_WITH, None)
    return int(parent) if parent else None


def notify_socket() -> str | None:
    """Returns the socket on which systemd expects notifications (`Type=notify`)."""
    return os.environ.get("NOTIFY_SOCKET") or None
