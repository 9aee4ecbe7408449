"""Estimates of change rates, and plans of visits. Pure."""
