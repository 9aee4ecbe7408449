"""What must not be read in a log or a trace: logins in addresses, and values of parameters that are
named like secrets.

The last line of defence, by the look of a text alone. Whoever handles a secret keeps it out of what
is told in the first place: proxies go by their ids, servers by `servers.masked`.
"""

from __future__ import annotations

import re

# A login is everything between the scheme and the last @ before the path. Quotes and backslashes
# end an address in JSON.
_LOGIN = re.compile(r"(?<=://)[^\s/?#\"'\\<>]*@")
_NAMES = r"(?:[\w.-]*(?:passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key|signature)|pwd|sig|auth|key)"
_PARAMETER = re.compile(rf"([?&;]{_NAMES}=)[^&;#\s\"'\\<>]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with logins in addresses, and secrets among their parameters, replaced by ***.

    >>> redacted("no answer of https://ann:s3cret@shop.example/p?id=7&api_key=abc")
    'no answer of https://***@shop.example/p?id=7&api_key=***'
    """
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1***", _LOGIN.sub("***@", text))
