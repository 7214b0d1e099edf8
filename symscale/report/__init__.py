"""Derivations and results to LaTeX, HTML and text."""
