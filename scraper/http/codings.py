"""Unpacks br and zstd, which browsers ask for over https, and so must a client that looks like one.
Bounded as gzip is in `scraper.http.body`. Requests ask only for codings whose library is installed.
"""

from __future__ import annotations

from typing import Any

from scraper.domain import Outcome
from scraper.errors import FetchError
from scraper.infra.optional import import_first, zstd

brotli: Any = import_first("brotli")
# RFC 9659 allows 8 MB, as browsers do.
_WINDOW_LOG_MAX = 23
_FRAMES_MAX = 4096

_LIBRARIES = {"br": brotli, "zstd": zstd}
_SUPPORTED = {"gzip", "deflate", *(name for name, library in _LIBRARIES.items() if library)}


def malformed_body(problem: str) -> FetchError:
    """Returns the error of a body that cannot be unpacked."""
    return FetchError(Outcome.MALFORMED, f"the packed body {problem}")


def keep_supported(accept_encoding: str) -> str:
    """Returns a browser's Accept-Encoding without the codings that cannot be unpacked here."""
    names = [name.strip() for name in accept_encoding.split(",")]
    return ", ".join(name for name in names if name in _SUPPORTED)


def has_library(coding: str) -> bool:
    """Returns whether this is `br` or `zstd`, and can be unpacked here."""
    return _LIBRARIES.get(coding) is not None


class BrotliUnpacker:
    """Returns little more than `max_bytes` + 1 bytes in all (libbrotli finishes a block): the
    caller sees the excess."""

    def __init__(self, max_bytes: int) -> None:
        self._budget = max_bytes + 1
        self._inflate = brotli.Decompressor()
        self._started = False

    def feed(self, data: bytes) -> bytes:
        self._started = self._started or bool(data)
        pieces = []
        while self._budget > 0 and not self._inflate.is_finished():
            try:
                piece = self._inflate.process(data, output_buffer_limit=self._budget)
            except brotli.error as error:
                raise malformed_body(f"does not unpack ({error})") from error
            self._budget -= len(piece)
            pieces.append(piece)
            data = b""
            if self._inflate.can_accept_more_data() or not piece:
                break
        return b"".join(pieces)

    def finish(self) -> None:
        if self._started and not self._inflate.is_finished():
            raise malformed_body("ends early")


class ZstdUnpacker:
    """Unpacks any number of frames, and returns at most `max_bytes` + 1 bytes in all."""

    def __init__(self, max_bytes: int) -> None:
        self._budget = max_bytes + 1
        self._inflate: Any = None
        self._frames = 0

    def feed(self, data: bytes) -> bytes:
        pieces = []
        while self._budget > 0 and (data or (self._inflate is not None and not self._needs_input)):
            if self._inflate is None or self._inflate.eof:
                self._open_frame()
            try:
                piece = self._inflate.decompress(data, self._budget)
            except zstd.ZstdError as error:
                raise malformed_body(f"does not unpack ({error})") from error
            self._budget -= len(piece)
            pieces.append(piece)
            data = self._inflate.unused_data if self._inflate.eof else b""
        return b"".join(pieces)

    def finish(self) -> None:
        if self._inflate is not None and not self._inflate.eof:
            raise malformed_body("ends early")

    @property
    def _needs_input(self) -> bool:
        return bool(self._inflate.eof or self._inflate.needs_input)

    def _open_frame(self) -> None:
        self._frames += 1
        if self._frames > _FRAMES_MAX:
            raise malformed_body(f"has more than {_FRAMES_MAX} frames")
        self._inflate = zstd.ZstdDecompressor(
            options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        )
