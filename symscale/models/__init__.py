"""Transformer blocks as programs, configurations, and the zoo."""
