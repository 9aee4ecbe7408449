"""Keeps secrets out of logs and traces: logins in addresses, and values of parameters that are
named like secrets.

`redact` is the last line of defence, since it only sees a text. Code that handles a secret keeps it
out of messages in the first place: they name proxies by id, and servers by `mask_passwords`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

# A login is everything between the scheme and the last @ before the path. Quotes and backslashes
# end an address in JSON.
_LOGIN = re.compile(
    # Without a scheme, a name is read from its first character only: a text of 100,000 names would
    # otherwise take minutes.
    r"(?<=://)[^\s/?#\"'\\<>]*@|(?<![\w.%+-])[\w.%+-]+:[^\s/?#:@\"'\\<>]+@(?=[\w-])"
)
_SECRET_NAME = re.compile(
    r"[\w.-]*(?:passw(?:or)?d|secret|token|credential|signature|session[_-]?id"
    r"|(?:api|access|auth|private|subscription)[_-]?key)"
    r"|pwd|pass|sig|sid|auth|authorization|key|jwt|otp|session|code|phpsessid",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"([?&;#])([\w.%\[\]-]{1,80})=([^&;#\s\"'\\<>]+)")
# A parameter of an address that is itself a parameter's value, encoded any number of times.
_NESTED = re.compile(
    rf"((?:\?|%(?:25)*(?:3f|26|23|3b))(?:{_SECRET_NAME.pattern})(?:=|%(?:25)*3d))"
    r"(?:(?!%(?:25)*26).)+",
    re.IGNORECASE,
)
# As a line, in JSON, and in what Python shows of a dictionary or of pairs.
_HEADER = re.compile(
    r"(\b(?:authorization|cookie|(?:x-(?:[\w-]{0,40}-)?|api[_-]?)(?:token|key|secret))\b"
    r"(?:\"?: ?\"?|[\"'][:,] b?(?P<quote>[\"'])))"
    r"(?(quote)(?:(?!(?P=quote))[^\r\n])+|[^\r\n\"]+)",
    re.IGNORECASE,
)
# A password may hold any character, also an @ or a slash that should have been encoded.
_SERVER_PASSWORDS = (
    # The nodes of a cluster may follow one another.
    re.compile(r"(?<=://)([^/?#:@]*:)((?:(?!;amqp://).)*)(?=@)"),
    re.compile(r"([?&]\w*passw(?:or)?d=)([^&]*)", re.IGNORECASE),
)


def redact(text: str) -> str:
    """Returns the text with logins in addresses, and secret parameters, replaced by ***.

    >>> redact("no answer of https://ann:s3cret@shop.example/p?id=7&api_key=abc")
    'no answer of https://***@shop.example/p?id=7&api_key=***'
    """
    if "@" in text:
        text = _LOGIN.sub("***@", text)
    if "=" in text:
        text = _PARAMETER.sub(_mask_parameter, text)
    lower = text.lower()
    has_header = "cookie" in lower or "authorization" in lower or "x-" in lower or "api" in lower
    return _HEADER.sub(r"\1***", text) if has_header else text


def _mask_parameter(match: re.Match[str]) -> str:
    before, name, value = match.groups()
    # Names may be in brackets, as in `login[password]`.
    parts = unquote(name).replace("]", "[").split("[")
    if any(map(_SECRET_NAME.fullmatch, parts)):
        return f"{before}{name}=***"
    value = _NESTED.sub(r"\1***", value)
    return f"{before}{name}={value}"


def mask_passwords(url: str) -> str:
    """Returns a server's URL with every password in it replaced by ***.

    >>> mask_passwords("postgresql://ann:s3cret@db/shop?sslpassword=x")
    'postgresql://ann:***@db/shop?sslpassword=***'
    >>> mask_passwords("amqp://ann:s3@cret@one/;amqp://ann:other@two/")
    'amqp://ann:***@one/;amqp://ann:***@two/'
    """
    for pattern in _SERVER_PASSWORDS:
        url = pattern.sub(r"\1***", url)
    return url


def scrub_error(error: BaseException, url: str) -> str:
    """Returns the error's first line without the URL's passwords, which the driver may quote."""
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    for secret in passwords_in(url):
        text = text.replace(secret, "***")
    return text


def passwords_in(url: str) -> list[str]:
    """Returns the passwords in a URL, longest first, since one may contain another."""
    passwords = [match[2] for pattern in _SERVER_PASSWORDS for match in pattern.finditer(url)]
    return sorted({*passwords, *map(unquote, passwords)} - {""}, key=len, reverse=True)
