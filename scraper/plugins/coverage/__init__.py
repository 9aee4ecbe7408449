"""Counts what a shop says it has, and compares it with what a crawl has found."""
