"""A bundled sample shop: `python -m scraper.plugins.demo` serves it, `definition` is the site
definition for it."""

from importlib.resources import files

PLACEHOLDER = "http://127.0.0.1:8800"


def definition(base_url: str) -> str:
    """The sample shop's site definition (YAML), for a shop that listens at `base_url`."""
    return (
        files(__name__)
        .joinpath("shop.yaml")
        .read_text(encoding="utf-8")
        .replace(PLACEHOLDER, base_url.rstrip("/"))
    )
