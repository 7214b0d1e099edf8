"""Crossovers, leading order, regimes and optima; every answer carries its steps."""
