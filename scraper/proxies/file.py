"""The list of proxies on disk, read again when it has changed. Only this module sees its text.

While the list is wrong or unreadable, its last valid version stays in use, and the log names line
numbers only.
"""

from __future__ import annotations

from pathlib import Path

from scraper.errors import ConfigError
from scraper.infra.secret_files import WatchedFile
from scraper.infra.setting_sources import read_secret
from scraper.proxies.proxy_list import ProxyListError, parse_list
from scraper.rules.proxies import Proxy

SIZE_MAX = 20_000_000


class ProxyFile(WatchedFile):
    label, entries = "list of proxies", "proxies"

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.proxies: list[Proxy] = []

    def _load_entries(self, path: Path) -> int:
        self.proxies = read_proxies(path)
        return len(self.proxies)


def read_proxies(path: Path) -> list[Proxy]:
    """Raises `ConfigError` with one line for each problem; none shows the file's text."""
    text = read_secret(path, "PROXY_LIST", SIZE_MAX)
    try:
        return parse_list(text, str(path))
    except ProxyListError as error:
        raise ConfigError(str(error)) from None
