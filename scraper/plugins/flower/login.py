"""The login of Flower: a setting, or a password that is generated once and stored in
`SCRAPER_HOME`."""

from __future__ import annotations

import secrets

from scraper.errors import ConfigError
from scraper.infra.secret_files import make_secret
from scraper.infra.services import Credentials
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings


def read_login(settings: Settings) -> Credentials:
    """Reads the login; generates its password on first use. Raises `ConfigError` for an empty file,
    with which everyone could log in."""
    own = settings.of(FlowerSettings)
    if own.flower_password:
        return Credentials(
            own.flower_user,
            own.flower_password,
            "SCRAPER_FLOWER_PASSWORD",
        )
    path = settings.home_dir / "flower-password"
    if not path.exists():
        make_secret(path, secrets.token_urlsafe(18))
    password = path.read_text().strip()
    if not password:
        raise ConfigError(f"{path}: no password (fix: remove it, and a new one is made)")
    return Credentials(own.flower_user, password, str(path), generated=True)


class StoredLogin:
    """The service `FlowerLogin`."""

    def read_login(self, settings: Settings) -> Credentials:
        return read_login(settings)


LOGIN = StoredLogin()
