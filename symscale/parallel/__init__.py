"""Strategies as shardings."""
