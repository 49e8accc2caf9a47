"""Servers: what offers this package's tools to other programs."""
