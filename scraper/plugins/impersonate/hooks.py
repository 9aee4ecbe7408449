"""libcurl's four hooks that its Python binding leaves out: they open sockets, and see when a
request is sent, and that libcurl is at work.

With them the guard judges each address that is connected to, requests are counted, libcurl's own
repetitions included, and a host that floods a connection holds up no other one. Written with ctypes
over cffi's handle, since curl_cffi has no callbacks for them. An error inside a hook refuses.
libcurl knows a transfer by a number.
"""

from __future__ import annotations

import ctypes
import itertools
import socket
from collections.abc import Callable
from typing import Any, Protocol

from curl_cffi import Curl, CurlOpt, ffi, lib

_SOCKET_BAD, _ABORT = -1, 1
_ALREADY_CONNECTED = 2  # CURL_SOCKOPT_ALREADY_CONNECTED


class HookedTransfer(Protocol):
    """The part of a transfer that the hooks call."""

    @property
    # Says that `open_socket` returns connected sockets.
    def connected(self) -> bool: ...
    # Returns a socket, which libcurl closes.
    def open_socket(self, family: int, kind: int, proto: int, address: str) -> int: ...
    def may_send(self, address: str) -> bool: ...
    # Is called each time libcurl has read something.
    def may_go_on(self) -> bool: ...


class _SockAddr(ctypes.Structure):
    """struct curl_sockaddr, with room for the longest address there is."""

    _fields_ = (
        ("family", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("proto", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("address", ctypes.c_ubyte * 128),
    )


_transfers: dict[int, HookedTransfer] = {}
_numbers = itertools.count(1)


def _open_socket(number: int | None, _purpose: int, pointer: int | None) -> int:
    try:
        transfer = _transfers[number or 0]
        address = ctypes.cast(pointer or 0, ctypes.POINTER(_SockAddr)).contents
        text = _format_address(address)
        return transfer.open_socket(address.family, address.kind, address.proto, text)
    except BaseException:  # noqa: BLE001 - an exception here would count as socket number 0
        return _SOCKET_BAD


def _socket_options(number: int | None, _socket: int, _purpose: int) -> int:
    try:
        return _ALREADY_CONNECTED if _transfers[number or 0].connected else 0
    except BaseException:  # noqa: BLE001
        return _ABORT


def _check_sending(
    number: int | None, address: bytes | None, _local: bytes, _port: int, _local_port: int
) -> int:
    try:
        return 0 if _transfers[number or 0].may_send((address or b"").decode("ascii")) else _ABORT
    except BaseException:  # noqa: BLE001 - as above, 0 would mean yes
        return _ABORT


def _check_progress(number: int | None, *_: int) -> int:
    try:
        return 0 if _transfers[number or 0].may_go_on() else _ABORT
    except BaseException:  # noqa: BLE001
        return _ABORT


def _format_address(address: _SockAddr) -> str:
    # The bytes are a sockaddr_in or sockaddr_in6: family, port, for IPv6 the flow, address.
    raw = bytes(address.address)
    if address.family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8])
    if address.family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24])
    raise ValueError("neither IPv4 nor IPv6")


def _to_pointer(function: Any) -> Any:
    return ffi.cast("void *", ctypes.cast(function, ctypes.c_void_p).value)


_INT, _DATA_POINTER, _TEXT = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
# The callbacks live as long as the process, since libcurl holds their addresses.
_CALLBACKS = (
    (
        CurlOpt.OPENSOCKETFUNCTION,
        ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _INT, _DATA_POINTER)(_open_socket),
    ),
    (CurlOpt.SOCKOPTFUNCTION, ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _INT, _INT)(_socket_options)),
    (
        CurlOpt.PREREQFUNCTION,
        ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _TEXT, _TEXT, _INT, _INT)(_check_sending),
    ),
    (
        CurlOpt.XFERINFOFUNCTION,
        ctypes.CFUNCTYPE(_INT, _DATA_POINTER, *[ctypes.c_int64] * 4)(_check_progress),
    ),
)
_HOOKS = tuple((option, _to_pointer(callback)) for option, callback in _CALLBACKS)
_DATA = (
    CurlOpt.OPENSOCKETDATA,
    CurlOpt.SOCKOPTDATA,
    CurlOpt.PREREQDATA,
    CurlOpt.XFERINFODATA,
)


def set_hooks(curl: Curl) -> None:
    """Sets the hooks of a handle, once. Until `attach_transfer` they refuse everything."""
    for option, function in _HOOKS:
        _set_option(curl, option, function)


def attach_transfer(curl: Curl, transfer: HookedTransfer) -> Callable[[], None]:
    """Makes the hooks call the handle's next transfer. Returns the function that detaches it."""
    number = next(_numbers)
    _transfers[number] = transfer
    data = ffi.cast("void *", number)
    for option in _DATA:
        _set_option(curl, option, data)
    return lambda: _detach_transfer(number)


def set_list(curl: Curl, option: CurlOpt, items: list[bytes]) -> Any:
    """Sets an option that takes a list; curl_cffi supports only a few of them. The caller keeps the
    list until it is replaced, and frees it with `free_list`."""
    linked = ffi.NULL
    for item in items:
        linked = lib.curl_slist_append(linked, item)
    _set_option(curl, option, linked)
    return linked


def free_list(linked: Any) -> None:
    if linked != ffi.NULL:
        lib.curl_slist_free_all(linked)


def unset_option(curl: Curl, option: CurlOpt) -> None:
    """Sets a text option to NULL, for which libcurl would have a value of its own."""
    _set_option(curl, option, ffi.NULL)


def _set_option(curl: Curl, option: CurlOpt, value: Any) -> None:
    code = lib._curl_easy_setopt(curl._curl, option, value)  # noqa: SLF001
    if code != 0:
        raise RuntimeError(f"libcurl refuses the option {option.name} ({code})")


def _detach_transfer(number: int) -> None:
    _transfers.pop(number, None)
