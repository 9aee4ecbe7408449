"""Keeps secrets out of logs and traces: logins in addresses, and values of parameters that are
named like secrets.

`redact` is the last line of defence, since it only sees a text. Code that handles a secret keeps it
out of messages in the first place: they name proxies by id, and servers by `mask_passwords`.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

# A login is everything between the scheme and the last @ before the path. Quotes and backslashes
# end an address in JSON.
_LOGIN = re.compile(r"(?<=://)[^\s/?#\"'\\<>]*@")
_NAMES = (
    r"(?:[\w.-]*(?:passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key|signature)"
    r"|pwd|sig|auth|key)"
)
_PARAMETER = re.compile(rf"([?&;]{_NAMES}=)[^&;#\s\"'\\<>]+", re.IGNORECASE)
_SERVER_SECRETS = frozenset({"password", "passwd", "sslpassword", "ssl_password"})


def redact(text: str) -> str:
    """Returns the text with logins in addresses, and secret parameters, replaced by ***.

    >>> redact("no answer of https://ann:s3cret@shop.example/p?id=7&api_key=abc")
    'no answer of https://***@shop.example/p?id=7&api_key=***'
    """
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1***", _LOGIN.sub("***@", text))


def mask_passwords(url: str) -> str:
    """Returns a server's URL with every password in it replaced by ***.

    >>> mask_passwords("postgresql://ann:s3cret@db/shop?sslpassword=x")
    'postgresql://ann:***@db/shop?sslpassword=***'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("://")[0] + "://***"
    login, _, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:***@{host}" if colon else parts.netloc
    query = parse_qsl(parts.query)
    if not any(key.lower() in _SERVER_SECRETS for key, _ in query):
        return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
    pairs = [(key, "***" if key.lower() in _SERVER_SECRETS else value) for key, value in query]
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(pairs, safe="*/:"), ""))


def scrub_error(error: BaseException, url: str) -> str:
    """Returns the error's first line without the URL's passwords, which the driver may quote."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    for secret in passwords_in(url):
        text = text.replace(secret, "***")
    return text


def passwords_in(url: str) -> list[str]:
    """Returns the passwords in a URL, longest first, since one may contain another."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    password = parts.netloc.rpartition("@")[0].partition(":")[2]
    values = {value for key, value in parse_qsl(parts.query) if key.lower() in _SERVER_SECRETS}
    return sorted({password, unquote(password), *values} - {""}, key=len, reverse=True)
