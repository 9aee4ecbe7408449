"""Who may log in to Flower: what the environment says, or a password made once and kept in
`SCRAPER_HOME`."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field

from scraper.settings import Settings


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: str = field(repr=False)
    where: str
    # Made here and kept in a file; otherwise the environment gives it.
    generated: bool = False


def get(settings: Settings) -> Login:
    """The login, its password made on first use. `where` says where the password is to be found,
    not what it is."""
    if settings.flower_password:
        return Login(settings.flower_user, settings.flower_password, "SCRAPER_FLOWER_PASSWORD")
    path = settings.home_dir / "flower-password"
    try:
        settings.home_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(18) + "\n")
    return Login(settings.flower_user, path.read_text().strip(), str(path), generated=True)
