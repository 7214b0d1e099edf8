"""Symbols with meaning and unit, dimension checks, the cost record, max-plus times.

Nothing here knows about arrays, chips or models; everything above builds on it.
"""
