"""Reads a formula's LaTeX back as a person would, to a number: the referee of the printers.

A space between two things multiplies and binds tighter than a slash, so an ambiguous ``a / b c``
reads as ``a / (b c)``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from mpmath import mpf

_IGNORED = re.compile(r"\\(?:left|right|biggl|biggr|bigl|bigr|quad|displaystyle)(?![a-z])|\\;|\{\}")
_TOKEN = re.compile(r"\\[a-zA-Z]+|\d+(?:\{,\}\d{3})+|\d+\.?\d*|.", re.DOTALL)


class _Reader:
    def __init__(self, latex: str, values: Mapping[str, str]) -> None:
        names = {name: f"\N{SECTION SIGN}{i};" for i, name in enumerate(values)}
        text = _IGNORED.sub(" ", latex).replace(r"\big/", "/")
        for name in sorted(names, key=len, reverse=True):
            edge = r"(?![A-Za-z])" if name[-1].isalpha() else ""
            text = re.sub(rf"(?<![A-Za-z\\]){re.escape(name)}{edge}", names[name], text)
        self.values = dict(zip(names.values(), map(mpf, values.values()), strict=True))
        self.tokens = [
            token
            for piece in re.split(r"(\u00a7\d+;)", text)
            for token in ([piece] if piece in self.values else _TOKEN.findall(piece))
            if not token.isspace()
        ]

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str = "") -> str:
        token = self.tokens.pop(0)
        assert not wanted or token == wanted, (token, wanted, self.tokens)
        return token

    def sum(self) -> mpf:
        total, sign = mpf(0), 1
        if self.peek() in "+-" and self.peek():
            sign = -1 if self.take() == "-" else 1
        total += sign * self.quotient()
        while self.peek() in ("+", "-"):
            sign = -1 if self.take() == "-" else 1
            total += sign * self.quotient()
        return total

    def quotient(self) -> mpf:
        value = self.product()
        while self.peek() == "/":
            self.take()
            value /= self.product()
        return value

    def product(self) -> mpf:
        factors = [self.power()]
        while self.peek() and self.peek() not in "+-/)},]":
            if self.peek() in (r"\times", r"\cdot"):
                self.take()
            factors.append(self.power())
        return prod(factors)

    def power(self) -> mpf:
        value = self.atom()
        if self.peek() == "^":
            self.take()
            value **= self.group()
        return value

    def group(self) -> mpf:
        self.take("{")
        value = self.sum()
        self.take("}")
        return value

    def bracket(self) -> list[mpf]:
        self.take("(")
        values = [self.sum()]
        while self.peek() == ",":
            self.take()
            values.append(self.sum())
        self.take(")")
        return values

    def atom(self) -> mpf:
        token = self.peek()
        if token == "(":
            (value,) = self.bracket()
            return value
        self.take()
        if token in self.values:
            return self.values[token]
        if token == r"\frac":
            return self.group() / self.group()
        if token == r"\sqrt":
            degree = mpf(2)
            if self.peek() == "[":
                degree = mpf([self.take(), self.take(), self.take("]")][1])
            return self.group() ** (1 / degree)
        if token == r"\max":
            return max(self.bracket())
        return mpf(token.replace("{,}", ""))


def latex_value(latex: str, values: Mapping[str, str]) -> mpf:
    """The number that a formula comes to, with a number for the LaTeX of each symbol."""
    reader = _Reader(latex, values)
    value = reader.sum()
    assert not reader.tokens, reader.tokens
    return value
