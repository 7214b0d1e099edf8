"""Blocks as lines of notation: what a layer's program is made of."""
