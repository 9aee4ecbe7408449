"""The plug-in `flower` when Celery loads the application for Flower."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from scraper import settings
from scraper.infra import shipped
from scraper.plugin import Hooks
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings


def load_app(arguments: Sequence[str]) -> None:
    """Guards Flower, whose login must not depend on the folder or configuration with which it
    starts."""
    if "flower" not in arguments:
        return
    # Only Flower's own process imports Flower.
    from scraper.plugins.flower import guard

    os.environ.setdefault("FLOWER_CONF", str(shipped.path("flowerconfig.py")))
    guard.install(settings.load())


class FlowerHooks(Hooks):
    def secret_values(self, settings: Settings) -> Iterable[str]:
        yield settings.of(FlowerSettings).flower_password or ""


HOOKS = FlowerHooks()
