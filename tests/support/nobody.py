"""Shows a page as nobody, as browser workers should, and says which processes showed it: JSON, on
the last line.

    python -m tests.support.nobody URL [--no-namespaces]

Run as root this process becomes nobody for good. It alone keeps the right to read whatever is
there, as a `.venv` may be made of an interpreter below /root; nothing that it starts has any right.
With `--no-namespaces` it is where nobody gets a user namespace (`user.max_user_namespaces=0`).
Linux only.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from scraper.errors import ConfigError, DeferredError
from scraper.plugins.browser import chromium
from scraper.plugins.browser.keys import Rendering
from scraper.plugins.browser.pool import Browsers
from scraper.settings import Settings
from tests.support.fetching import POLICY

NOBODY = 65534
PR_SET_KEEPCAPS, CLONE_NEWUSER = 8, 0x10000000  # linux/prctl.h, linux/sched.h
CAPABILITY_VERSION_3, CAP_DAC_READ_SEARCH = 0x20080522, 2  # linux/capability.h


def become_nobody() -> None:
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # effective and permitted; where root itself has it not, nothing is kept
    reading = 1 << CAP_DAC_READ_SEARCH
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    if libc.capset(header, struct.pack("6I", reading, reading, 0, 0, 0, 0)):
        libc.capset(header, bytes(24))


def without_namespaces() -> None:
    """In a namespace of its own, where it is called nobody, and which may hold no further ones."""
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {group} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def described(kind: str, pid: int) -> dict[str, Any]:
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return {
        "kind": kind,
        "uid": int(status["Uid"].split()[0]),
        "pids": len(status["NSpid"].split()),
        "no_new_privileges": status["NoNewPrivs"].strip() == "1",
        "filtered": status["Seccomp"].strip() == "2",
        "capabilities": int(status["CapEff"], 16),
        "users": users_of(pid),
        "command": (folder / "cmdline").read_text().replace("\0", " "),
    }


def users_of(pid: int | str) -> list[str]:
    """Which users its namespace has: another one has others, unless it has all of them."""
    return Path(f"/proc/{pid}/uid_map").read_text().split()


async def show(url: str) -> dict[str, Any]:
    """The page's text, and the browser's processes while it was open."""
    browsers = Browsers(Settings(), pages=1)
    try:
        work = asyncio.ensure_future(
            browsers.fetch(url, POLICY, Rendering(wait_for=".never", wait="2s"))
        )
        while not work.done() and not any(
            visit.main for running in browsers._processes.running for visit in running.open_pages
        ):
            await asyncio.sleep(0.02)
        if not browsers._processes.running:
            await work  # which raises
        (running,), told = browsers._processes.running, []
        for kind, pid in await chromium.list_processes(running.session):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                told.append(described(kind, pid))
        return {"body": (await work).body.decode(), "processes": told, "users": users_of("self")}
    finally:
        await browsers.aclose()


async def main(url: str) -> dict[str, Any]:
    """As `show`; where no browser starts, what its error is at a worker's start. (What it is later
    is in the log.)"""
    try:
        await chromium.check_chromium(Settings())
    except ConfigError as error:
        with suppress(DeferredError):
            return {"error": "none for a page", **await show(url)}
        return {"error": str(error)}
    return await show(url)


if __name__ == "__main__":
    (without_namespaces if "--no-namespaces" in sys.argv[2:] else become_nobody)()
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
