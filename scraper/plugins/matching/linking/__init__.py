"""Which offers are one article."""
