"""`scraper.api` reads definitions and the feed with the settings of the environment."""

from __future__ import annotations

from threading import Event

import pytest
import sqlalchemy as sa

from scraper import api, settings
from scraper.infra import migrations
from scraper.settings import Settings
from tests.support.shops.crawled_shop import Shop

DEFINITION = """
start: https://shop.example/
listing: {products: a.product}
product: {fields: {title: h1}}
"""


def test_changes_are_read_and_followed(environment: Settings, engine: sa.Engine) -> None:
    shop = Shop(engine)
    shop.once(title="A")
    shop.once(title="B")
    seen = [(change.event, change.data["title"]) for change in api.read_changes()]
    assert seen == [("new", "A"), ("changed", "B")]
    name = shop.site.name
    assert [change.event for change in api.read_changes("now", site=name)] == []
    stop = Event()
    followed = api.follow_changes("oldest", site=name, stop=stop)
    assert next(followed).data["title"] == "A"
    stop.set()
    followed.close()  # type: ignore[attr-defined]
    with pytest.raises(api.NotFoundError):
        list(api.read_changes(site="none"))


def test_sites_and_the_database_are_those_of_the_settings(environment: Settings) -> None:
    (environment.sites_dir / "books.yaml").write_text(DEFINITION)
    assert [site.name for site in api.load_sites()] == ["books"]
    assert api.load_settings().sites_dir == environment.sites_dir
    engine = api.open_database()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM sites")).scalar() == 0
    engine.dispose()


def test_a_database_that_is_away_is_an_error(
    environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@127.0.0.1:1/none")
    settings.load.cache_clear()
    with pytest.raises(api.ServerUnavailableError):
        next(api.read_changes())


def test_a_database_of_an_older_version_is_an_error(
    environment: Settings, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "read_revision", lambda *_: "0001")
    with pytest.raises(api.ServerUnavailableError, match="type `scraper migrate`"):
        next(api.read_changes())
