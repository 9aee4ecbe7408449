"""A statement whose reply is lost on the way ends; one that takes long does not."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from scraper.infra import database as access
from scraper.infra import outages
from scraper.infra.database import WatchedConnection, make_engine
from scraper.plugins.embedded import postgres
from scraper.settings import Settings
from tests.support.servers.bad_network import BadNetwork

SILENT_S = 0.3
SLEEP = sa.text("SELECT pg_sleep(2)")
ONE = sa.text("SELECT 1")


@pytest.fixture
def network(servers: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[BadNetwork]:
    monkeypatch.setattr(access, "SILENT_S", SILENT_S)
    with BadNetwork(postgres.socket(servers)) as found:
        yield found


@pytest.fixture
def far(network: BadNetwork, database: str) -> Iterator[sa.Engine]:
    name = sa.make_url(database).database
    engine = make_engine(f"postgresql+psycopg://scraper@127.0.0.1:{network.port}/{name}")
    yield engine
    engine.dispose()


def test_a_statement_takes_long(far: sa.Engine) -> None:
    with far.begin() as connection:
        connection.execute(SLEEP)
        assert connection.execute(ONE).scalar() == 1


def test_a_statement_ends_while_the_server_is_asked(
    far: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    ask = WatchedConnection._is_served

    def ask_late(self: WatchedConnection, silent_s: float, is_begun: bool) -> bool:
        if self.ask_again is None:
            # The server is asked over this connection.
            return ask(self, silent_s, is_begun)
        time.sleep(2)
        asked.append(ask(self, silent_s, is_begun))
        return asked[-1]

    monkeypatch.setattr(WatchedConnection, "_is_served", ask_late)
    with far.begin() as connection:
        # What connecting has asked does not count.
        asked.clear()
        assert connection.execute(sa.text("SELECT 2 FROM pg_sleep(1)")).scalar() == 2
    assert asked == [False]


def test_a_statement_waits_for_a_lock(far: sa.Engine, engine: sa.Engine) -> None:
    lock = sa.text("SELECT pg_advisory_xact_lock(35)")
    with engine.connect() as other:
        other.execute(lock)

        def release() -> None:
            time.sleep(4 * SILENT_S)
            other.rollback()

        thread = threading.Thread(target=release)
        thread.start()
        with far.begin() as connection:
            connection.execute(lock)
        thread.join()


@pytest.mark.slow
def test_nothing_comes_through(far: sa.Engine, network: BadNetwork) -> None:
    far.connect().close()
    network.open_hole(loses=True)
    with pytest.raises(sa.exc.OperationalError) as caught, far.connect() as connection:
        connection.execute(ONE)
    assert outages.is_postgres_away(caught.value)
    network.close_hole()
    with far.connect() as connection:
        assert connection.execute(ONE).scalar() == 1


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.slow
def test_a_connection_that_is_not_answered_is_closed_at_once(
    far: sa.Engine, network: BadNetwork
) -> None:
    """A fleet that tries again and again would use up a pooler's clients, and its own files."""
    network.open_hole(loses=True)
    with pytest.raises(sa.exc.OperationalError, match="timeout expired"):
        far.connect()
    assert sockets_to(network) == []
    network.close_hole()


def sockets_to(network: BadNetwork) -> list[object]:
    """This process's connections that lead to the network."""
    return [
        socket
        for socket in psutil.Process().net_connections("tcp")
        if socket.raddr and socket.raddr.port == network.port
    ]


def test_a_pooled_connection_is_silent(far: sa.Engine, network: BadNetwork) -> None:
    far.connect().close()
    network.open_hole(loses=True)
    network.close_hole()
    with far.connect() as connection:
        assert connection.execute(ONE).scalar() == 1


def test_the_reply_to_a_commit_is_lost(far: sa.Engine, network: BadNetwork) -> None:
    connection = far.connect()
    connection.execute(ONE)
    network.open_hole(loses=True)
    network.close_hole()
    with pytest.raises(sa.exc.OperationalError, match="reply was lost"):
        connection.commit()
    connection.close()
    with far.connect() as connection:
        assert connection.execute(ONE).scalar() == 1


def test_a_session_that_a_pooler_has_ended_is_given_up_without_a_traceback(
    engine: sa.Engine, empty_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    pooled = make_engine(empty_database)
    with pooled.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, WatchedConnection)
        driver.is_pooled = True
        with engine.begin() as other:
            other.execute(
                sa.text("SELECT pg_terminate_backend(:pid, 60000)"),
                {"pid": driver.info.backend_pid},
            )
        with pytest.raises(psycopg.OperationalError) as raised:
            connection.execute(ONE)
        assert outages.is_postgres_away(raised.value)
    assert "Traceback" not in caplog.text and not caplog.records
    with pooled.connect() as connection:
        assert connection.execute(ONE).scalar() == 1
    pooled.dispose()
