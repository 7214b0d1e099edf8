"""Chips as data, networks, and how a collective's volume becomes time."""
