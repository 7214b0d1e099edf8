"""Ops, collectives, the partitioner and the reverse pass."""
