"""Who may log in to Flower: what the environment says, or a password made once and kept in
`SCRAPER_HOME`."""

from __future__ import annotations

import os
import secrets

from scraper.infra.flower_login import Login
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings


def get(settings: Settings) -> Login:
    """The login, its password made on first use. `where` says where the password is to be found,
    not what it is."""
    own = settings.of(FlowerSettings)
    if own.flower_password:
        return Login(
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
    return Login(own.flower_user, path.read_text().strip(), str(path), generated=True)


class KeptLogin:
    """The service `FlowerLogin`."""

    def get(self, settings: Settings) -> Login:
        return get(settings)


LOGIN = KeptLogin()
