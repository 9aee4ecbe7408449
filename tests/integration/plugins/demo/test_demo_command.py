"""`scraper demo` deletes an earlier demo's data, and no other site's."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.frontier import sites
from scraper.plugins.demo import command, processes
from tests.support.making import a_site, rows

NAMES = "SELECT name, definition ->> 'start' FROM sites"


def test_an_earlier_demo_is_replaced(engine: sa.Engine) -> None:
    for port in (4711, 4712):
        command._install_definition(engine, f"http://127.0.0.1:{port}")
    ((name, start),) = rows(engine, NAMES)
    assert name == "demo" and ":4712/" in str(start)


def test_a_site_of_the_users_own_that_has_the_name_stays(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        sites.store_definitions(connection, [a_site(name="demo")])
    known = rows(engine, NAMES)
    with pytest.raises(ConfigError, match="another site is named 'demo'"):
        command._install_definition(engine, "http://127.0.0.1:4711")
    assert rows(engine, NAMES) == known


def test_a_process_is_known_by_the_time_at_which_it_started() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started_at = processes.read_start_time(process.pid)
        assert abs(started_at - time.time()) < 60
        assert processes.read_start_time(os.getpid()) != started_at
        process.kill()
        while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert processes.read_start_time(process.pid) == 0
    assert processes.read_start_time(process.pid) == 0
