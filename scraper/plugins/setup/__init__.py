"""Adds shops and changes definitions in the Crawls tab."""
