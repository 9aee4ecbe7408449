"""Chromium on this machine: where it is, how it is started, how large it is. No page is opened
here.

Imports Playwright when asked, since it is an extra (`browser`); it drives a browser of the
system's, and downloads none. Chromium speaks to us over a pipe that ends with this process, however
that dies; it looks up no name, and has no other way out than the proxy it is given.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from scraper.errors import ConfigError
from scraper.plugins.browser.settings import BrowserSettings

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

    from scraper.settings import Settings

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCH_S = 45.0
HEAP_MAX_MB = 512  # of one renderer's JavaScript
# An open page needs this much at the worst, which bounds the number of pages at once.
PAGE_MB = 400
PAGES_MAX = 8
EXTRA = "Playwright is not installed here (fix: `pip install 'celery-scraper[browser]'`)"
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-pings",
    "--dns-prefetch-disable",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-speech-api",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its older name
    # Whatever would look a name up by itself, it finds none: the proxy gets names, and does it.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    f"--js-flags=--max-old-space-size={HEAP_MAX_MB}",
)
# These settings below /proc/sys deny user namespaces to users that are not root: setting, value,
# and what to type.
_NO_NAMESPACES = (
    # Debian's kernels have this setting.
    ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
    # Ubuntu's kernels have this setting.
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
# Chromium says the second where only some kinds of namespaces are allowed.
_NO_SANDBOX = ("No usable sandbox", "Failed to move to new namespace")
STEALTH_ARGUMENT = "--disable-blink-features=AutomationControlled"
# A page can see this argument, since everybody's browser has a `Notification`.
PLAIN_ARGUMENT = "--disable-notifications"
# The browser runs code of strangers, so its environment has no addresses, passwords or keys.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "TMPDIR",
    "TZ",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
    "LD_LIBRARY_PATH",
)


def program(settings: Settings) -> str:
    """The browser's path. Raises `ConfigError` that says what to type."""
    own = settings.of(BrowserSettings)
    if own.chromium is not None:
        path = Path(own.chromium)
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
        raise ConfigError(
            f"environment variable SCRAPER_CHROMIUM: {path} is not a program (fix: the path of a "
            "Chromium)"
        )
    for name in NAMES:
        if executable := shutil.which(name):
            return executable
    raise ConfigError(
        "no Chromium on this machine, which a browser worker needs (fix: `apt install "
        "chromium`, or SCRAPER_CHROMIUM with "
        "the path of a Chromium or Chrome)"
    )


def require_extra() -> None:
    """Raises `ConfigError` where Playwright is not installed."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        raise ConfigError(EXTRA) from None


def sandboxed() -> bool:
    """Chromium's own sandbox, wherever it has one: as root it has none."""
    return os.geteuid() != 0


async def launch(
    playwright: Playwright, settings: Settings, proxy: str | None, *, stealth: bool = False
) -> Browser:
    """Starts a browser. `proxy` is the default one, for requests that belong to no page; it refuses
    requests without a password."""
    return await playwright.chromium.launch(
        executable_path=program(settings),
        headless=True,
        chromium_sandbox=sandboxed(),
        args=[*ARGUMENTS, STEALTH_ARGUMENT if stealth else PLAIN_ARGUMENT],
        proxy={"server": proxy} if proxy else None,
        env=_environment(os.environ),
        # Another module decides how this process ends (`scraper.process.shutdown`).
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        timeout=LAUNCH_S * 1000,
    )


def _environment(given: Mapping[str, str]) -> dict[str, str | float | bool]:
    return {
        name: value
        for name, value in given.items()
        if name in _ENVIRONMENT or name.startswith(("LC_", "XDG_"))
    }


async def check(settings: Settings) -> str:
    """Starts a browser and ends it: its version. Raises `ConfigError` where this machine cannot."""
    require_extra()
    path = program(settings)
    from playwright.async_api import Error, async_playwright

    try:
        async with async_playwright() as playwright:
            browser = await launch(playwright, settings, None)
            version = browser.version
            await browser.close()
            return version
    except Error as error:
        raise ConfigError(f"{path} does not start: {reason(error)}") from None


def reason(error: BaseException) -> str:
    """Why no browser started, or the first line that says something: Playwright's own texts are
    long."""
    if any(sign in str(error) for sign in _NO_SANDBOX):
        return no_sandbox()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telemetry = [
        line for line in lines if "ERROR" in line or "FATAL" in line or "error while" in line
    ]
    return (telemetry or lines or [type(error).__name__])[0][:300]


def no_sandbox(kernel: Path = Path("/proc/sys")) -> str:
    """Returns what denies Chromium the user namespaces that its sandbox needs, as far as the kernel
    shows it, and what to type."""
    text = "its sandbox needs user namespaces, which user {} does not get on this machine: {}"
    for name, value, fix in _NO_NAMESPACES:
        with suppress(OSError):
            if (kernel / name).read_text(encoding="ascii").strip() == value:
                return text.format(
                    os.geteuid(), f"{kernel / name} is {value} (fix: `sysctl -w {fix}`)"
                )
    return text.format(
        os.geteuid(),
        "no setting of the kernel forbids them, so it is a container's seccomp profile (fix: "
        "one that allows them, such as "
        "deploy/seccomp/chromium.json), or its systemd unit (fix: RestrictNamespaces=user pid "
        "net)",
    )


def pages_at_once(settings: Settings, *, cores: int, memory_mb: float) -> int:
    """As set, else by cores and by the memory that is free: two pages a core, since they wait as
    long as they work.

    `pages_at_once(settings, cores=2, memory_mb=8000) == 4`
    """
    own = settings.of(BrowserSettings)
    if own.browser_pages is not None:
        return own.browser_pages
    return max(1, min(PAGES_MAX, 2 * cores, int(memory_mb / 2 / PAGE_MB)))


def pages_here(settings: Settings) -> int:
    """How many pages may be open at once in a process of this machine."""
    memory_mb = psutil.virtual_memory().available / 1_048_576
    return pages_at_once(settings, cores=os.cpu_count() or 1, memory_mb=memory_mb)


async def processes(session: Any) -> list[tuple[str, int]]:
    """(type, pid) of each of a browser's processes, as it says itself. Hangs where the browser
    does."""
    info = await session.send("SystemInfo.getProcessInfo")
    return [(str(process["type"]), int(process["id"])) for process in info["processInfo"]]


def size_mb(pids: Iterable[int]) -> float:
    """What processes take up together, pages that they share counted once (PSS; where there is
    none, RSS)."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            total += next(
                int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")
            )
        except (OSError, StopIteration, ValueError):
            total += _rss_kb(pid)
    return total / 1024


def _rss_kb(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss / 1024)
    except psutil.Error:
        return 0
