"""The subprocess that reads slow pages: `python -m scraper.extract.subprocess FD`.

`scraper.extract.subprocess.pool` sends it one page at a time over a socket, whose file descriptor
is the argument. The process ends when the socket closes. The kernel limits its CPU time and memory,
so a hostile page can harm only this process."""

from __future__ import annotations

import math
import pickle
import resource
import socket
import sys
import time
import traceback

import psutil

from scraper.extract.bounds import TooSlow
from scraper.extract.extractor import compile_site
from scraper.extract.function_reader import FunctionFailed
from scraper.extract.subprocess.wire import ReadRequest, ReadResult, read_request, write_frame

MEMORY_MAX_MB = 300


def read_page(request: ReadRequest) -> ReadResult:
    """Reads a page; every failure becomes a result."""
    try:
        extractor = compile_site(request.site, request.allowed, lambda site: request.adapter)
        extracted = extractor.extract(
            request.kind,
            request.page,
            page_url=request.page_url,
            depth=request.depth,
            last_content=request.last_content,
            limits=request.limits,
        )
    except FunctionFailed as error:
        return ReadResult(failed=str(error))
    except TooSlow as error:
        return ReadResult(too_slow=str(error))
    except MemoryError:
        return ReadResult(too_slow=f"reading the page took more than {MEMORY_MAX_MB} MB")
    except Exception as error:  # noqa: BLE001 - the pool raises it
        # A bug of the scraper: the pool raises it, as if it had read the page itself.
        traceback.print_exc()
        return ReadResult(crashed=f"{type(error).__name__}: {error}")
    return ReadResult(extracted)


def main() -> None:
    pool_socket = socket.socket(fileno=int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_MAX_MB * 1_000_000,) * 2)
    pool_socket.sendall(b"\x00")
    while (request := read_request(pool_socket)) is not None:
        # RLIMIT_CPU counts whole seconds.
        cpu_s = math.ceil(time.process_time() + request.limits.cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
        write_frame(pool_socket, pickle.dumps(read_page(request), pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
