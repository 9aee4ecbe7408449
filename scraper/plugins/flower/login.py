"""The login of Flower: a setting, or a password that is generated once and stored in
`SCRAPER_HOME`."""

from __future__ import annotations

import os
import secrets

from scraper.infra.services import Credentials
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings


def read_login(settings: Settings) -> Credentials:
    """Reads the login; generates its password on first use."""
    own = settings.of(FlowerSettings)
    if own.flower_password:
        return Credentials(
            own.flower_user,
            own.flower_password,
            "SCRAPER_FLOWER_PASSWORD",
        )
    path = settings.home_dir / "flower-password"
    try:
        settings.home_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(18) + "\n")
    return Credentials(own.flower_user, path.read_text().strip(), str(path), generated=True)


class StoredLogin:
    """The service `FlowerLogin`."""

    def read_login(self, settings: Settings) -> Credentials:
        return read_login(settings)


LOGIN = StoredLogin()
