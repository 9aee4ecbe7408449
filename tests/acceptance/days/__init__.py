"""An honest shop over more than thirty days, and how soon the crawler publishes what its owner does.

`make days` prints for each day: true changes, those that its crawl published, how late the others
came, false alarms, products lost, and requests repeated within a crawl. Nothing that this shop says
is ever wrong. Seeded: `SEED=`.
"""
