"""Visits planned by how often pages change, within a budget of requests."""
