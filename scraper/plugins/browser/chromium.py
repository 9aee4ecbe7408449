"""Finds, starts and measures Chromium on this machine. Opens no pages.

Imports Playwright on use, since it is an extra (`browser`). Playwright drives the system's browser,
and downloads none. Chromium ends with this process, however that dies, since their pipe closes; it
resolves no names, and reaches the network only through its proxy.
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
# Starts the browser that `SCRAPER_CHROMIUM` of its environment names.
STARTER = Path(__file__).with_suffix(".sh")
LAUNCH_S = 45.0
# The limit for the JavaScript heap of a renderer.
HEAP_MAX_MB = 512
# An open page needs at most this much, which bounds the number of pages at once.
PAGE_MB = 400
PAGES_MAX = 8
EXTRA = "Playwright is not installed here (fix: `pip install 'celery-scraper[browser]'`)"
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-pings",
    # Playwright does not report the requests of a shared worker, so no rate would apply to them.
    "--disable-shared-workers",
    "--dns-prefetch-disable",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-speech-api",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    # The next one is an older name of the same.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # Chromium itself resolves no names: the proxy gets them, and resolves them.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    f"--js-flags=--max-old-space-size={HEAP_MAX_MB}",
)
# Settings below /proc/sys that deny user namespaces to all users but root: setting, value, and fix.
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
# Chromium reports the second one if only some kinds of namespaces are allowed.
_NO_SANDBOX = ("No usable sandbox", "Failed to move to new namespace")
STEALTH_ARGUMENT = "--disable-blink-features=AutomationControlled"
# Pages can detect this argument, since other browsers have a `Notification`.
PLAIN_ARGUMENT = "--disable-notifications"
# The browser runs untrusted code, so its environment has no addresses, passwords or keys.
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


def find_program(settings: Settings) -> str:
    """Returns the browser's path. Raises `ConfigError` with the fix."""
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
    """Raises `ConfigError` if Playwright is not installed."""
    try:
        import playwright.async_api  # noqa: F401
    except ImportError:
        raise ConfigError(EXTRA) from None


def has_sandbox() -> bool:
    """Returns whether Chromium's sandbox works: as root it does not."""
    return os.geteuid() != 0


async def launch_browser(
    playwright: Playwright, settings: Settings, proxy: str | None, *, stealth: bool = False
) -> Browser:
    """Starts a browser. `proxy` is for requests outside any page; it refuses those without a
    password."""
    return await playwright.chromium.launch(
        executable_path=STARTER,
        headless=True,
        chromium_sandbox=has_sandbox(),
        args=[*ARGUMENTS, STEALTH_ARGUMENT if stealth else PLAIN_ARGUMENT],
        proxy={"server": proxy} if proxy else None,
        env={**_browser_environment(os.environ), "SCRAPER_CHROMIUM": find_program(settings)},
        # Another module decides how this process ends (`scraper.process.shutdown`).
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        timeout=LAUNCH_S * 1000,
    )


def _browser_environment(given: Mapping[str, str]) -> dict[str, str | float | bool]:
    return {
        name: value
        for name, value in given.items()
        if name in _ENVIRONMENT or name.startswith(("LC_", "XDG_"))
    }


async def check_chromium(settings: Settings) -> str:
    """Starts a browser, ends it, and returns its version. Raises `ConfigError` if it cannot
    start."""
    require_extra()
    path = find_program(settings)
    from playwright.async_api import Error, async_playwright

    try:
        async with async_playwright() as playwright:
            browser = await launch_browser(playwright, settings, None)
            version = browser.version
            await browser.close()
            return version
    except Error as error:
        raise ConfigError(f"{path} does not start: {explain_failure(error)}") from None


def explain_failure(error: BaseException) -> str:
    """Explains why a browser did not start, by the first useful line of Playwright's long text."""
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
    """Returns the setting, or the number that fits the cores and half of the free memory. It is two
    pages a core, since pages wait half of their time.

    `pages_at_once(settings, cores=2, memory_mb=8000) == 4`
    """
    own = settings.of(BrowserSettings)
    if own.browser_pages is not None:
        return own.browser_pages
    return max(1, min(PAGES_MAX, 2 * cores, int(memory_mb / 2 / PAGE_MB)))


def pages_here(settings: Settings) -> int:
    """Returns how many pages a process of this machine may have open at once."""
    memory_mb = psutil.virtual_memory().available / 1_048_576
    return pages_at_once(settings, cores=os.cpu_count() or 1, memory_mb=memory_mb)


async def list_processes(session: Any) -> list[tuple[str, int]]:
    """Asks a browser for the (type, pid) of each of its processes. Hangs if the browser does."""
    info = await session.send("SystemInfo.getProcessInfo")
    return [(str(process["type"]), int(process["id"])) for process in info["processInfo"]]


def measure_mb(pids: Iterable[int]) -> float:
    """Returns the memory of several processes, with shared pages counted once (PSS, or else
    RSS)."""
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
