"""When an ended process is started again, and which queues get a worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.errors import RESTART_CODE
from scraper.plugins.supervisor.definitions import NamedQueues
from scraper.plugins.supervisor.joint_log import JointLog
from scraper.plugins.supervisor.policy import (
    BACKOFF_MAX_S,
    QUICK_DEATHS_MAX,
    QUICK_S,
    group_queues,
    list_served,
    plan_next_start,
)
from scraper.plugins.supervisor.supervised import READY_S, SupervisedProcess
from tests.support.waiting import until

QUEUES = st.sets(st.sampled_from(["coordinator", "datacenter", "residential.eu", "browser", "x.y"]))


def deaths_until_given_up(code: int, life_s: float, most: int = 1000) -> int | None:
    quick_deaths = 0
    for number in range(1, most):
        quick_deaths, wait_s = plan_next_start(code, life_s, quick_deaths)
        if wait_s is None:
            return number
        assert 0 <= wait_s <= BACKOFF_MAX_S
    return None


@pytest.mark.parametrize("code", [-9, 0, 1, 2, 70])
def test_quick_deaths_are_given_up_and_late_ones_never(code: int) -> None:
    assert deaths_until_given_up(code, 1.0) == QUICK_DEATHS_MAX + 1
    assert deaths_until_given_up(code, QUICK_S) is None


def test_an_absent_server_and_a_wanted_restart_are_never_given_up() -> None:
    assert deaths_until_given_up(3, 0.5) is None
    assert deaths_until_given_up(RESTART_CODE, 0.5) is None


@given(QUEUES, QUEUES)
def test_each_named_queue_has_a_worker_and_no_other(named: set[str], served: set[str]) -> None:
    groups = group_queues(named, served)
    queues = [queue for group in groups for queue in group]
    assert sorted(queues) == sorted(named - served - {"coordinator"})
    assert all(len({queue.startswith("browser") for queue in group}) == 1 for group in groups)
    assert group_queues(named, served | list_served(queues)) == []


def test_definitions_that_break_keep_their_queues(tmp_path: Path) -> None:
    named = NamedQueues(tmp_path)
    assert named.read() == {"datacenter"}
    text = "start: https://shop.example/\nlisting: {products: a}\nproduct: {fields: {title: h1}}\n"
    (tmp_path / "shop.yaml").write_text(f"{text}queue: residential\n")
    assert named.read() == {"datacenter", "residential"}
    (tmp_path / "shop.yaml").write_text(f"{text}queue: [1\n")
    assert named.read() == {"datacenter", "residential"}
    (tmp_path / "shop.yaml").unlink()
    assert named.read() == {"datacenter"}


def test_a_line_drives_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = JointLog(tmp_path / "log" / "start.log")
    log.write("worker", "\x1b[31mred\x1b[0m \x1b]0;title\x07 \u202e\tend")
    log.close()
    expected = "worker      | red ?]0;title? ?\tend\n"
    assert capsys.readouterr().out == expected
    assert (tmp_path / "log" / "start.log").read_text() == expected


def test_a_process_is_started_again_and_given_up(tmp_path: Path) -> None:
    """Its last line is in the sentence; what it started dies with it; its clock is the caller's."""
    read_end, held_end = os.pipe()
    script = "echo begun; sleep 600 & echo $!; echo 'cannot go on' >&2; exit 2"
    output = tmp_path / "log" / "output.log"
    process = SupervisedProcess(
        "flower", ["sh", "-c", script], dict(os.environ), output, held_end, essential=False
    )
    now = 0.0
    process.start(now)
    sentences: list[str] = []
    lines: list[str] = []
    while not process.is_given_up:
        now += BACKOFF_MAX_S
        until(lambda: not process.is_running())
        lines += process.read_lines()
        sentence = process.keep_running(now)
        sentences += [sentence] if sentence else []
    lines += process.read_lines()
    assert [line.split(",")[0] for line in sentences[:4]] == [
        "flower ended with exit code 2; starts it again in 0 s",
        "flower started again",
        "flower ended with exit code 2; starts it again in 1 s",
        "flower started again",
    ]
    assert "gives it up" in sentences[-1] and sentences[-1].endswith("\ncannot go on")
    assert lines.count("cannot go on") == lines.count("begun") == QUICK_DEATHS_MAX + 1
    os.close(held_end)
    assert os.read(read_end, 1) == b"", "no process holds it any more"
    os.close(read_end)


def test_a_process_is_given_up_with_its_last_line_even_if_no_line_was_read(tmp_path: Path) -> None:
    script = "echo begun; printf 'cannot go on' >&2; exit 2"
    output = tmp_path / "output.log"
    read_end, held_end = os.pipe()
    process = SupervisedProcess(
        "flower", ["sh", "-c", script], dict(os.environ), output, held_end, essential=False
    )
    now, sentence = 0.0, None
    process.start(now)
    while not process.is_given_up:
        now += BACKOFF_MAX_S
        until(lambda: not process.is_running())
        sentence = process.keep_running(now) or sentence
    os.close(read_end)
    os.close(held_end)
    assert sentence is not None and sentence.endswith("\ncannot go on")
    assert list(process.read_lines()) == ["begun", "cannot go on"] * (QUICK_DEATHS_MAX + 1)


def test_a_process_that_writes_nothing_is_ready_after_a_while(tmp_path: Path) -> None:
    """As at the log level WARNING: deaths far apart do not add up."""
    read_end, held_end = os.pipe()
    command, output = ["sleep", "600"], tmp_path / "output.log"
    process = SupervisedProcess(
        "worker", command, dict(os.environ), output, held_end, essential=True
    )
    now = 0.0
    process.start(now)
    for _ in range(2 * QUICK_DEATHS_MAX):
        assert process.keep_running(now + READY_S / 2) is None and not process.is_ready
        now += READY_S
        assert process.keep_running(now) is None and process.is_ready
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: not process.is_running())
        assert process.keep_running(now) == (
            "worker ended with signal SIGKILL; starts it again in 0 s"
        )
        assert "started again" in (process.keep_running(now) or "")
    process.kill()
    until(lambda: not process.is_running())
    os.close(read_end)
    os.close(held_end)
