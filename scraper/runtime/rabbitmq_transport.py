"""kombu's RabbitMQ transport, which drops foreign messages (`scraper.runtime.envelopes`): it
acknowledges and counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amqp import serialization, spec
from kombu.transport import pyamqp

from scraper.process import dropped_messages
from scraper.runtime import envelopes


def _read_properties(buffer: bytes, offset: int) -> tuple[dict[str, Any], int]:
    """Reads a message's properties; returns none if they are malformed.

    RabbitMQ passes on texts that are not UTF-8, and headers of unknown types or of endless depth.
    They break one message here, not the connection."""
    try:
        properties, end = serialization.decode_properties_basic(buffer, offset)
    except Exception:  # noqa: BLE001 - whatever it is, the message is foreign
        return {}, len(buffer)
    return properties, end


serialization.PROPERTY_CLASSES[serialization.Basic.CLASS_ID] = _read_properties


class RabbitChannel(pyamqp.Channel):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Bodies stay bytes: some encodings take minutes for a few megabytes.
        self.auto_decode = False

    def dispatch_method(self, method_sig: tuple[int, int], payload: bytes, content: Any) -> None:
        """Cuts exchange and routing key, which the sender chooses freely, from a delivery's
        arguments. Consumer tag, delivery tag and the redelivered flag remain."""
        if method_sig == spec.Basic.Deliver:
            payload = bytes(payload[: payload[4] + 14]) + b"\x00\x00"
        super().dispatch_method(method_sig, payload, content)

    def basic_consume(
        self,
        queue: str = "",
        *args: Any,
        no_ack: bool = False,
        callback: Callable[[Any], None] | None = None,
        **options: Any,
    ) -> Any:
        def deliver(message: Any) -> None:
            try:
                envelope = envelopes.check_amqp_message(message.properties, message.body, queue)
            except envelopes.ForeignMessageError as reason:
                start = message.body[: dropped_messages.SHOWN_BYTES] if message.body else b""
                dropped_messages.record(queue, str(reason), bytes(start))
                if not no_ack:
                    self.basic_ack(message.delivery_tag)
                return
            message.body = envelope.body
            message.properties = {
                "content_type": "application/json",
                "content_encoding": "utf-8",
                "application_headers": envelope.headers,
                "priority": envelope.priority,
            }
            message.delivery_info |= {"exchange": "", "routing_key": queue}
            if callback is not None:
                callback(message)

        return super().basic_consume(queue, *args, no_ack=no_ack, callback=deliver, **options)


class Connection(pyamqp.Connection):
    Channel = RabbitChannel


class RabbitTransport(pyamqp.Transport):
    Connection = Connection


class SSLTransport(pyamqp.SSLTransport):
    Connection = Connection
