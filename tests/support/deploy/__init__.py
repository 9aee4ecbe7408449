"""Readers of manifests and rules."""
