"""Reads slow pages in subprocesses: the pool, the wire format and the subprocess itself."""
