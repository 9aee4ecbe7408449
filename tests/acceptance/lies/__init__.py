"""A shop that goes wrong, in every way on a site of its own, and what the crawler publishes then.

`make lies` crawls each site well twice, lets it go wrong or surprise, and counts: values published
that never were true, live products delisted, true changes that came late. Seeded: `SEED=`.
"""
