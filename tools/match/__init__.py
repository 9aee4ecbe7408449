"""`make match`: how many offers of one product are linked, and how many links are wrong."""
