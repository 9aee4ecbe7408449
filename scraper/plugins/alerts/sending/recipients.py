"""The list of recipients of messages. No other module reads it.

Addresses hold passwords and tokens. They are in a secret file of their own, and logs, tables and
errors show only an address's line and kind.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from scraper.errors import ConfigError
from scraper.infra.setting_sources import read_secret
from scraper.plugins.alerts.keys import RECIPIENT
from scraper.plugins.alerts.sending.services import make_service

# A line may begin with names, as apprise's own lists do: `garden, ops = https://…`.
NAMES = re.compile(rf"({RECIPIENT}(?:\s*,\s*{RECIPIENT})*)\s*=\s*(?=\S*://)")
REMARK = re.compile(r"(?:^|\s)#.*")
PUBLIC = "  # public"
SIZE_MAX = 100_000
RECIPIENTS_MAX = 50
# In a web address, the key that signs a webhook's messages follows this.
SECRET = "#whsec_"  # noqa: S105 - a prefix, not a secret
KEY_MIN = 16
# The schemes whose addresses begin with a host; those of other services may begin with a token.
MAIL = ("mailto", "mailtos")
WITH_HOST = ("http", "https", "json", "jsons", *MAIL)


@dataclass(frozen=True, slots=True)
class Recipient:
    """One line of the list. Logs and errors may show only its `label`. A recipient with names
    receives only messages for one of these names. A `public` one is reached at public addresses
    only."""

    line: int
    kind: str
    address: str
    names: frozenset[str] = frozenset()
    public: bool = False

    @property
    def label(self) -> str:
        return f"line {self.line} ({self.kind})"

    @property
    def host(self) -> str:
        """The host of a web or mail address; empty if the text that looks like it may be secret."""
        scheme, _, rest = self.address.partition("://")
        try:
            parts = urlsplit(self.address)
            host = parts.hostname or ""
        except ValueError:
            return ""
        # A password with a sign such as `#` would end the host too early.
        is_cut = "@" in rest[len(parts.netloc) :].partition("?")[0]
        return host if scheme.lower() in WITH_HOST and not is_cut else ""

    @property
    def key(self) -> str:
        """Identifies the recipient on whichever line it is. Too short to recover the address."""
        digest = hashlib.blake2s(self.address.encode(), digest_size=4).hexdigest()
        return f"{self.kind} {digest}"

    def __repr__(self) -> str:
        return f"<Recipient {self.label}>"


def load_recipients(path: Path) -> list[Recipient]:
    """Reads the list: one address per line, with or without names; `#` starts a remark. Raises
    `ConfigError` with one line per problem, without addresses."""
    return parse_recipients(read_secret(path, "SCRAPER_ALERTS", SIZE_MAX), path)


def parse_recipients(text: str, path: Path) -> list[Recipient]:
    """Reads the text of a list, as `load_recipients` does."""
    listed: list[Recipient] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        address = REMARK.sub("", line).strip()
        if not address:
            continue
        names = NAMES.match(address)
        address = address[names.end() :] if names else address
        kind = address.partition("://")[0].lower()[:20]
        named = frozenset(re.split(r"\s*,\s*", names[1])) if names else frozenset()
        recipient = Recipient(number, kind, address, named, line.rstrip().endswith(PUBLIC))
        usable = signing_key(address) if SECRET in address else make_service(address, kind)
        if "://" not in address or usable is None:
            problems.append(
                f"{path}:{number}: not an address that messages can be sent to (fix: https://… for "
                "a webhook, https://…#whsec_BASE64 for a signed one, "
                "mailtos://user:password@mail.example?to=… for e-mail; apprise's documentation "
                "has others)"
            )
        listed.append(recipient)
    if len(listed) > RECIPIENTS_MAX:
        problems.append(f"{path}: more than {RECIPIENTS_MAX} addresses")
    if problems:
        raise ConfigError("\n".join(problems))
    return listed


def signing_key(address: str) -> bytes | None:
    """Returns the key of a signed webhook; None if it is not valid, or not a web address."""
    url, _, secret = address.partition(SECRET)
    try:
        key = b64decode(secret, validate=True)
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return key if len(key) >= KEY_MIN and host and url.startswith(("http://", "https://")) else None
