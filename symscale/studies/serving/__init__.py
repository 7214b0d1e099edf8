"""Serving systems: batches that never end, servers of two kinds, drafts, caches, and sweeps."""
