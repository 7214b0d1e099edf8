"""How each family of configurations is read: from the keys of its ``config.json`` to blocks."""
