"""What a page leaves behind is used for the next page, without asking the system for memory."""

from __future__ import annotations

import subprocess
import sys

from tests.support.machine import tunes_memory

READ = """
import resource
from threading import Thread
from selectolax.lexbor import LexborHTMLParser
from scraper.process.memory import keep_freed_memory

page = b"<p class='a'>text</p>" * 20_000

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def read():
    for body in [page] * 10:
        LexborHTMLParser(body)
    before = faults()
    for body in [page] * 50:
        LexborHTMLParser(body)
    print(faults() - before)

if {keeps}:
    keep_freed_memory()
reader = Thread(target=read)
reader.start()
reader.join()
"""


def count_faults(*, keeps: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", READ.format(keeps=keeps)],
        stdout=subprocess.PIPE,
        timeout=180,
        check=True,
    )
    return int(done.stdout)


@tunes_memory
def test_a_page_is_parsed_in_the_memory_of_the_page_before() -> None:
    assert count_faults(keeps=True) * 10 < count_faults(keeps=False)
