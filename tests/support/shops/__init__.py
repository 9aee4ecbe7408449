"""Shops that tests crawl."""
