"""Expressions compared as mathematics: by exact substitution at random rational points."""

from __future__ import annotations

import random
from collections.abc import Mapping

from sympy import Expr, Rational, sympify


def same(found: Expr, wanted: Expr | int, points: int = 8) -> bool:
    """Whether two expressions agree at random points, exactly."""
    difference = found - sympify(wanted)
    names = sorted(difference.free_symbols, key=str)
    dice = random.Random(7)
    for _ in range(points):
        at = {name: Rational(dice.randint(1, 10**6), dice.randint(1, 10**3)) for name in names}
        if difference.xreplace(at).doit() != 0:
            return False
    return True


def assert_same(found: Expr, wanted: Expr | int) -> None:
    assert same(found, wanted), f"{found} is not {wanted}"


def assert_volumes(found: Mapping[object, Expr], wanted: Mapping[object, Expr | int]) -> None:
    """Two tables of bytes by mesh axis, term by term."""
    assert set(found) == set(wanted), f"{dict(found)} is not {dict(wanted)}"
    for key, value in wanted.items():
        assert_same(found[key], value)
