"""What follows an answer that may be its proxy's doing: a table of every way that a visit can go."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from scraper.domain import Outcome, ProxySignal
from scraper.errors import FetchError
from scraper.proxies.rotation_state import (
    AGREE,
    AGREE_BLIND,
    RETRY_WITHIN_S,
    TRIES_MAX,
    ProxyAnswer,
    RotationState,
    RotationStep,
    choose_step,
    is_strike,
)

FAILED = FetchError(Outcome.TIMEOUT, "no answer", url="https://shop.example/")


def visit(doubts: int, tries: int = 1, **more: Any) -> RotationState:
    doubted: Any = {f"p{number}": None for number in range(doubts)}
    return RotationState(
        0.0, suspicions=doubted, reasons=["no answer"] * tries, **{"result": FAILED, **more}
    )


@pytest.mark.parametrize(
    ("doubts", "tries", "alive", "more", "follows"),
    [
        # Three must agree on a host that answers others, five on an unknown host.
        (AGREE - 1, 1, True, {}, RotationStep.ANOTHER),
        (AGREE, 1, True, {}, RotationStep.AGREED),
        (AGREE, 1, False, {}, RotationStep.ANOTHER),
        (AGREE_BLIND - 1, 4, False, {}, RotationStep.ANOTHER),
        (AGREE_BLIND, 4, False, {}, RotationStep.AGREED),
        # A block needs no more than three where there is a way up, or the page alone is meant.
        (AGREE, 1, False, {"blocked": True}, RotationStep.ANOTHER),
        (AGREE, 1, False, {"blocked": True, "can_go_up": True}, RotationStep.AGREED),
        (AGREE, 1, False, {"blocked": True, "page_alone": True}, RotationStep.AGREED),
        (AGREE, 1, False, {"can_go_up": True}, RotationStep.ANOTHER),
        # No proxy has said anything about the page itself.
        (AGREE, 1, True, {"result": None}, RotationStep.ANOTHER),
        # The visit's tries are used up.
        (1, TRIES_MAX, True, {}, RotationStep.GO_BACK),
        (0, TRIES_MAX - 1, True, {}, RotationStep.ANOTHER),
        (AGREE, TRIES_MAX, True, {}, RotationStep.AGREED),
    ],
)
def test_what_follows(
    doubts: int, tries: int, alive: bool, more: dict[str, Any], follows: RotationStep
) -> None:
    now = RETRY_WITHIN_S
    assert (
        choose_step(visit(doubts, tries, **more), final=False, host_alive=alive, now=now) is follows
    )


@pytest.mark.parametrize(
    ("doubts", "trusted", "follows"),
    [(1, True, RotationStep.ANOTHER), (2, True, RotationStep.AGREED), (2, False, RotationStep.ANOTHER),
     (AGREE, False, RotationStep.ANOTHER), (AGREE_BLIND, False, RotationStep.AGREED)],
)  # fmt: skip
def test_a_page_that_lacks_something_is_believed_of_who_gives_whole_ones(
    doubts: int, trusted: bool, follows: RotationStep
) -> None:
    one = visit(doubts, lacking=True)
    assert choose_step(one, final=False, host_alive=True, now=0.0, trusted=trusted) is follows


def test_a_visit_that_has_lasted_too_long_goes_back() -> None:
    late = RETRY_WITHIN_S + 0.1
    assert choose_step(visit(1), final=False, host_alive=True, now=late) is RotationStep.GO_BACK
    assert choose_step(visit(AGREE), final=False, host_alive=True, now=late) is RotationStep.AGREED


@pytest.mark.parametrize("alive", [True, False])
def test_no_other_proxy_is_asked_after_a_final_answer(alive: bool) -> None:
    for doubts, tries in product(range(7), range(7)):
        follows = choose_step(visit(doubts, tries), final=True, host_alive=alive, now=99.0)
        assert follows is RotationStep.END


def test_no_visit_goes_on_for_ever() -> None:
    for doubts, alive in product(range(20), [True, False]):
        followed = choose_step(visit(doubts, TRIES_MAX), final=False, host_alive=alive, now=0.0)
        assert followed is not RotationStep.ANOTHER


def test_what_a_proxy_fails_at_is_not_said_of_the_page() -> None:
    one, route = RotationState(0.0), Any
    its_own = FetchError(Outcome.PROXY_FAILED, "proxy p1: no way", url="https://shop.example/")
    for error, signal in ((FAILED, ProxySignal.FAILED), (its_own, ProxySignal.UNUSABLE)):
        text = f"proxy p1: {error}"
        one.add(ProxyAnswer(route, error, signal, text, 1))  # type: ignore[arg-type]
    assert one.result is FAILED and len(one.reasons) == 2 and not one.blocked


@pytest.mark.parametrize("clearly_worse", [True, False])
def test_which_suspicions_are_a_strike_once_another_proxy_got_the_page(clearly_worse: bool) -> None:
    strikes = {signal for signal in ProxySignal if is_strike(signal, clearly_worse=clearly_worse)}
    certain = {ProxySignal.BLOCKED, ProxySignal.REPEATED}
    assert strikes == certain | ({ProxySignal.LACKING} if clearly_worse else set())
