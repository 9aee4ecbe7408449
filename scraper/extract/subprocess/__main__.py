"""A process that reads pages which may take long: `python -m scraper.extract.subprocess FD`.

It is asked over a socket (its file descriptor is the argument), one page at a time, and ends with
it. What a page can do to it ends with it, too: it may use so much CPU time and memory, and the
kernel sees to that. Who asks is `scraper.extract.subprocess.page_reader`.
"""

from __future__ import annotations

import math
import pickle
import resource
import socket
import sys
import time
import traceback

import psutil

from scraper.extract.bounds import ALONE, TooSlow
from scraper.extract.extractor import compile_site
from scraper.extract.functions import FunctionFailed
from scraper.extract.subprocess.wire import Answer, Question, read_frame, write_frame

MEMORY_MAX_MB = 300


def answer(question: Question) -> Answer:
    try:
        extractor = compile_site(question.site, question.allowed)
        extracted = extractor.extract(
            question.kind,
            question.page,
            page_url=question.page_url,
            depth=question.depth,
            last_content=question.last_content,
            limits=ALONE,
        )
    except FunctionFailed as error:
        return Answer(failed=str(error))
    except TooSlow as error:
        return Answer(too_slow=str(error))
    except MemoryError:
        return Answer(too_slow=f"reading the page took more than {MEMORY_MAX_MB} MB")
    except Exception as error:  # noqa: BLE001 - told to who asks
        # The fault is ours: who asks says so, as of a page that it reads itself.
        traceback.print_exc()
        return Answer(crashed=f"{type(error).__name__}: {error}")
    return Answer(extracted)


def main() -> None:
    asker = socket.socket(fileno=int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_MAX_MB * 1_000_000,) * 2)
    asker.sendall(b"\x00")
    while (question := _next(asker)) is not None:
        # The kernel counts whole seconds.
        cpu_s = math.ceil(time.process_time() + ALONE.cpu_s)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
        write_frame(asker, pickle.dumps(answer(question), pickle.HIGHEST_PROTOCOL))


def _next(asker: socket.socket) -> Question | None:
    frame = read_frame(asker)
    return None if frame is None else pickle.loads(frame)  # noqa: S301 - our own worker's


if __name__ == "__main__":
    main()
