"""Helpers of the tests: servers, shops, and what reads deployments."""
