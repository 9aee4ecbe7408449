"""Finds the user who sends a request to Flower: by a password or token of the file, or by the
session of Flower's OAuth."""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Sequence

import structlog
import tornado.web
from flower.app import Flower
from flower.utils.authentication import authenticate
from tornado.httputil import HTTPServerRequest
from tornado.options import options

from scraper.errors import ConfigError
from scraper.plugins.flower.access.users import Logins, User, users_file
from scraper.plugins.flower.settings import FlowerSettings
from scraper.settings import Settings

log = structlog.get_logger()


class Senders:
    """The users of requests."""

    def __init__(self, settings: Settings) -> None:
        self._logins = Logins(users_file(settings.home_dir))
        self._oauth_role = settings.of(FlowerSettings).flower_oauth_role

    def find_user(self, app: Flower, request: HTTPServerRequest) -> User | None:
        """Returns the user; None for Flower's own login, and without any."""
        authorization = request.headers.get("Authorization", "")
        if is_flowers_own(authorization, options.basic_auth or ()):
            return None
        # Flower requires its own login too if it has one, and only then looks at the session.
        address = "" if options.basic_auth else read_address(app, request)
        try:
            user = self._logins.find_user(authorization)
            if user is None and address:
                return self._logins.find_address(address, self._oauth_role)
        except ConfigError as error:
            log.error("no user of the file may log in", error=str(error))
            # Without the file, an address has the least role.
            return User(address, "read", "", "") if address else None
        return user


def is_flowers_own(authorization: str, logins: Sequence[str]) -> bool:
    """Returns whether the header has one of Flower's own logins, `user:password`."""
    try:
        given = b64decode(authorization.partition(" ")[2])
    except ValueError:
        return False
    return any(hmac.compare_digest(login.encode(), given) for login in logins)


def read_address(app: Flower, request: HTTPServerRequest) -> str:
    """Returns the e-mail address that Flower's OAuth proved and its options admit, from the
    session's signed cookie; "" without one."""
    cookie = request.cookies.get("user")
    if not options.auth or cookie is None:
        return ""
    secret = app.settings["cookie_secret"]
    # As Flower's own check does, so that neither admits what the other refuses.
    value = tornado.web.decode_signed_value(secret, "user", cookie.value)
    address = (value or b"").decode("utf-8", "replace")
    return address if address and authenticate(options.auth, address) else ""
