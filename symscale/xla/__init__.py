"""The referee: what XLA made of a sharded program, read and held against what was derived."""
