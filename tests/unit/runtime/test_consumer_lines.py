"""What Celery says of messages that could not be acknowledged."""

from __future__ import annotations

import logging

import pytest
from kombu.asynchronous import Hub
from kombu.exceptions import ChannelError
from kombu.message import Message

from scraper.runtime import consumer

REQUESTS = logging.getLogger("celery.worker.request")
LOOPS = logging.getLogger("celery.worker.loops")


class Channel:
    """One that takes no answer for a message any more."""

    no_ack_consumers = None

    def __init__(self, error: Exception) -> None:
        self._error = error

    def basic_ack(self, *_: object, **__: object) -> None:
        raise self._error

    basic_reject = basic_ack


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        # the broker is away, which is said elsewhere
        (ConnectionResetError(104, "Connection reset by peer"), 0),
        (ChannelError("PRECONDITION_FAILED - unknown delivery tag 1"), 2),
    ],
)
def test_a_lost_connection_is_not_said_for_each_message(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert consumer.is_worth_logging in REQUESTS.filters
    message = Message(channel=Channel(error), delivery_tag=1)
    message.ack_log_error(REQUESTS, (type(error),))
    message.reject_log_error(REQUESTS, (type(error),))
    assert len(caplog.records) == lines


@pytest.mark.parametrize(
    ("error", "lines"), [(BrokenPipeError(32, "Broken pipe"), 0), (KeyError("a queue"), 1)]
)
def test_nor_once_more_when_the_loop_ends(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that was to be acknowledged in the loop's next turn, when the connection broke
    (celery.worker.loops)."""

    def acknowledge() -> None:
        raise error

    hub = Hub()
    hub.call_soon(acknowledge)
    leave_loop(hub, ValueError("the loop's own error"))
    assert len(caplog.records) == lines


@pytest.mark.parametrize(
    ("loop_error", "lines"), [(ConnectionError("a queue cannot be read"), 0), (KeyError("own"), 1)]
)
def test_nor_what_the_rest_of_a_broken_connection_says(
    loop_error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """RabbitMQ refuses what was acknowledged before it closed the channel."""

    def read_on() -> None:
        raise ChannelError("PRECONDITION_FAILED - unknown delivery tag 20")

    hub = Hub()
    hub.call_soon(read_on)
    leave_loop(hub, loop_error)
    assert len(caplog.records) == lines


def leave_loop(hub: Hub, error: Exception) -> None:
    """As celery.worker.loops does."""
    try:
        raise error
    except Exception:
        try:
            hub.reset()
        except Exception as left:
            LOOPS.exception("Error cleaning up after event loop: %r", left)
