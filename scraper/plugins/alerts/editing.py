"""Changes the files of recipients and of rules for the Crawls tab. They are written whole and
logged by the plug-in `setup`; the log keeps no address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from socket import AI_NUMERICHOST, getaddrinfo
from typing import Any, Protocol
from urllib.parse import urlsplit

import sqlalchemy as sa

from scraper import settings
from scraper.errors import ConfigError
from scraper.http.transport.guard import ANYWHERE, NOWHERE, Networks, forbidden_reason
from scraper.plugins.alerts.keys import RECIPIENT
from scraper.plugins.alerts.prices import outbox, rules
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.recipients import NAMES, REMARK, Recipient
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.registry import find_service

ADDRESS_MAX = 2000
_NAMES = re.compile(rf"{RECIPIENT}(?:\s*,\s*{RECIPIENT})*").fullmatch
# A control character, a space, or what turns text round.
_BREAKING = re.compile(r"[\x00-\x20\x7f-\xa0\u200e\u200f\u2028-\u202e\u2066-\u2069]").search
_LINE = re.compile(r":(\d+): ?(.*)")


class LoggedFiles(Protocol):
    """Writes files with a log of their changes. `author`: the user, what is changed, and how."""

    def read_file(self, file: Path) -> str | None:
        """Returns a file's text, or None without it."""

    def hash_text(self, text: str | None) -> str:
        """Returns the hash of a text that a writer has seen."""

    def compare_texts(self, before: str, after: str) -> list[str]:
        """Returns the lines of a diff; [] if nothing differs or it is too large."""

    def is_writable(self, folder: Path) -> bool:
        """Returns whether files can be written there."""

    def allows_private(self) -> bool:
        """Returns whether what is added in the tab may lead to the own network."""

    def save_file(
        self,
        engine: sa.Engine,
        file: Path,
        text: str,
        seen: str,
        author: tuple[str, str, str],
        mask: Callable[[str], str] | None = None,
    ) -> str | None:
        """Saves a file. Returns why it cannot be written, or None. Raises `ConfigError` if it has
        changed since `seen`."""


def has_log() -> bool:
    """Returns whether there is a log, without which nothing is changed here."""
    return find_service(LoggedFiles) is not None  # type: ignore[type-abstract]


def is_writable(file: Path | None) -> bool:
    """Returns whether the page can change a file."""
    files = find_service(LoggedFiles)  # type: ignore[type-abstract]
    return files is not None and file is not None and files.is_writable(file.resolve().parent)


def _require_files() -> LoggedFiles:
    files = find_service(LoggedFiles)  # type: ignore[type-abstract]
    if files is None:
        raise ConfigError("the plug-in setup, which logs changes, is off (SCRAPER_PLUGINS_OFF)")
    return files


def recipients_file() -> Path:
    """Returns the list of recipients. Raises `ConfigError` without one."""
    file = settings.load().of(AlertsSettings).alerts
    if file is None:
        raise ConfigError("SCRAPER_ALERTS is not set (docs/how-to/alerts.md)")
    return file


def _rules_file() -> Path:
    file = settings.load().of(AlertsSettings).alert_rules
    if file is None:
        raise ConfigError("SCRAPER_ALERT_RULES is not set (docs/how-to/alerts.md)")
    return file


def find_recipient(file: Path, body: Mapping[str, Any]) -> Recipient:
    """Returns the recipient with the `line` and the `key` of a body. Raises `ConfigError` if the
    list has changed."""
    if set(body) != {"line", "key"}:
        raise ConfigError('the body is {"line": NUMBER, "key": KEY}')
    for recipient in recipient_list.load_recipients(file):
        if (recipient.line, recipient.key) == (body["line"], body["key"]):
            return recipient
    raise ConfigError("the list of recipients has changed (fix: load the page again)")


def mask_addresses(text: str) -> str:
    """Returns the text of a list without remarks, and of each address its kind and short hash.

    >>> mask_addresses("ops = foo://secret  # also secret")
    'ops = foo c965c39a\\n'
    """
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        address = REMARK.sub("", line).strip()
        names = NAMES.match(address)
        address = address[names.end() :] if names else address
        kind, sign, _ = address.partition("://")
        recipient = Recipient(number, kind.lower()[:20] if sign else "unknown", address)
        lines.append(f"{names[1]} = {recipient.key}" if names else recipient.key if address else "")
    return "".join(f"{line}\n" for line in lines)


def add_recipient(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str:
    """Adds `address` to the list, for messages to `names`, or to all."""
    file, files = recipients_file(), _require_files()
    given = _read_texts(body, "address", "names")
    address, names = given["address"], given["names"]
    if not address or len(address) > ADDRESS_MAX or _BREAKING(address):
        raise ConfigError("give one address, without spaces (fix: as in https://hooks.example/…)")
    if names and not _NAMES(names):
        raise ConfigError("names are letters, digits, - and _, with commas between them")
    before = files.read_file(file)
    private = ANYWHERE if files.allows_private() else NOWHERE
    line = f"{names} = {address}" if names else address
    line += "" if private else recipient_list.PUBLIC
    ending = "" if not before or before.endswith("\n") else "\n"
    text = f"{before or ''}{ending}{line}\n"
    added = [
        recipient
        for recipient in recipient_list.parse_recipients(text, file)
        if recipient.address == address
    ]
    if len(added) != 1:
        fault = "is there already" if added else "is not an address alone"
        raise ConfigError(f"this {fault}")
    _refuse_own_network(added[0], private)
    author = (user, "alert recipients", "added")
    refused = files.save_file(engine, file, text, files.hash_text(before), author, mask_addresses)
    if refused is not None:
        raise ConfigError(f"{refused}. Add the line yourself, where this file comes from.")
    return f"{added[0].label} is added."


def _refuse_own_network(recipient: Recipient, private: Networks) -> None:
    """Raises `ConfigError` for a cloud's metadata service, and for hosts in the own network that
    are not in `private`. A name is looked up only if it is not a token of its service."""
    try:
        host = urlsplit(recipient.address).hostname
        flags = 0 if recipient.host else AI_NUMERICHOST
        # Resolves addresses as connections do, in all spellings: 0x7f.1, 2130706433.
        resolved = getaddrinfo(host, None, flags=flags)
    except (OSError, ValueError):
        return
    for *_, address in resolved:
        reason = forbidden_reason(str(address[0]).partition("%")[0], private)
        if reason is not None:
            more = "" if private else " (SCRAPER_SETUP_PRIVATE=0)"
            raise ConfigError(f"the host's address is {reason}, and not for messages{more}")


def remove_recipient(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str:
    """Removes the recipient with this `line` and `key`."""
    file, files = recipients_file(), _require_files()
    before = files.read_file(file)
    recipient = find_recipient(file, body)
    lines = (before or "").splitlines(keepends=True)
    del lines[recipient.line - 1]
    author = (user, "alert recipients", "removed")
    refused = files.save_file(
        engine, file, "".join(lines), files.hash_text(before), author, mask_addresses
    )
    if refused is not None:
        raise ConfigError(f"{refused}. Remove line {recipient.line} where this file comes from.")
    return f"{recipient.label} is removed."


def read_rules(engine: sa.Engine, body: Mapping[str, Any], user: str) -> dict[str, Any]:
    """Returns the text of the file of rules."""
    file, files = _rules_file(), _require_files()
    text = files.read_file(file)
    return {"file": str(file), "text": text or "", "seen": files.hash_text(text)}


def check_rules(engine: sa.Engine, body: Mapping[str, Any], user: str) -> dict[str, Any]:
    """Returns the problems of `text`, and how it differs from the file."""
    text = _read_texts(body, "text")["text"]
    file, files = _rules_file(), _require_files()
    diff = files.compare_texts(files.read_file(file) or "", text)
    return {"problems": _find_problems(engine, text, file), "diff": diff}


def _find_problems(engine: sa.Engine, text: str, file: Path) -> list[dict[str, Any]]:
    try:
        named = {rule.name for rule in rules.parse_rules(text, file)}
    except ConfigError as error:
        lines = [line.removeprefix(str(file)) for line in str(error).splitlines()]
        matches = [(_LINE.fullmatch(line), line) for line in lines]
        return [
            {"line": int(match[1]), "text": match[2]} if match else {"line": 1, "text": line[2:]}
            for match, line in matches
        ]
    with engine.connect() as connection:
        sites = connection.execute(outbox.RULES_OF_SITES).all()
    taken = [rule.name for row in sites for rule in rules.site_rules(row.name, row.alerts)]
    return [
        {"line": 1, "text": f"{name!r} is also a rule of a definition (fix: rename one)"}
        for name in taken
        if name in named
    ]


def save_rules(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str | dict[str, Any]:
    """Saves `text`. `seen`: the hash of the text that the file has now; "" for a new file."""
    file, files = _rules_file(), _require_files()
    given = _read_texts(body, "text", "seen")
    problems = _find_problems(engine, given["text"], file)
    if problems:
        lines = [f"line {problem['line']}: {problem['text']}" for problem in problems[:5]]
        raise ConfigError("\n".join(["not saved:", *lines]))
    author = (user, "alert rules", "changed" if given["seen"] else "added")
    refused = files.save_file(engine, file, given["text"], given["seen"], author)
    if refused is not None:
        message = f"{refused}. Commit this file to where your rules come from."
        return {"message": message, "file": str(file), "text": given["text"]}
    return {"message": f"{file} is saved.", "seen": files.hash_text(given["text"])}


def _read_texts(body: Mapping[str, Any], *names: str) -> dict[str, str]:
    """Returns the texts of a body that has no other keys; "" for one that is missing."""
    texts = {name: body.get(name, "") for name in names}
    if set(body) - set(names) or not all(isinstance(text, str) for text in texts.values()):
        raise ConfigError(f"the body has only texts, by the names {', '.join(names)}")
    return {name: text if name == "text" else text.strip() for name, text in texts.items()}
