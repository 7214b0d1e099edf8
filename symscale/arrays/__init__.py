"""Named-axis notation, dtypes, meshes and sharded arrays."""
