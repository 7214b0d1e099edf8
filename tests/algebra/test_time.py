"""Times: bounds, overlap, sequence; and the unevaluated maximum beneath them."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Expr, Integer, Max, Rational, latex, sqrt

from symscale.algebra.errors import SymscaleError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, C, D, F, L, W_hbm, X, Y, symbol
from symscale.algebra.time import HBM, MATH, Stage, Time, TimeTerm

MATH_TERM = TimeTerm(MATH, B / C)
HBM_TERM = TimeTerm(HBM, D / W_hbm)
GATHER = TimeTerm("Y", F / Y, ("Y",), critical=True)
PREFETCH = TimeTerm("X", F / X, ("X",))
ALL = Time.of(MATH_TERM, HBM_TERM, GATHER, PREFETCH)


def test_three_overlaps() -> None:
    assert ALL.lower == ALL.total("full") == Maximum(B / C, D / W_hbm, F / Y, F / X)
    assert ALL.upper == ALL.total("none") == B / C + D / W_hbm + F / Y + F / X
    assert ALL.total("critical") == Maximum(B / C, D / W_hbm, F / X) + F / Y
    with pytest.raises(SymscaleError, match="overlap 'some' is none of 'full', 'none', 'critical'"):
        ALL.total("some")  # type: ignore[arg-type]


def test_parts() -> None:
    assert ALL.math == B / C
    assert ALL.hbm == D / W_hbm
    assert dict(ALL.by_axis) == {Y: F / Y, X: F / X}
    assert ALL.comms == F / Y + F / X
    assert ALL.comms_overlapped == Maximum(F / Y, F / X)
    both = Time.of(TimeTerm("XY", B, ("X", "Y")))
    assert dict(both.by_axis) == {(X, Y): B}


def test_one_resource_queues_up() -> None:
    twice = Time.of(PREFETCH, TimeTerm("X", B, ("X",), critical=True))
    assert twice.lower == F / X + B
    assert twice.total("critical") == F / X + B
    assert [term.value for term in twice.merged().terms] == [F / X, B]
    assert len(Time.of(PREFETCH, PREFETCH).merged().terms) == 1


def test_sequence_and_overlap_of_times() -> None:
    first, second = Time.of(MATH_TERM), Time.of(HBM_TERM)
    assert first.then(second).lower == B / C + D / W_hbm
    assert first.beside(second).lower == Maximum(B / C, D / W_hbm)
    assert ALL.scale(L).upper.expand() == (ALL.upper * L).expand()
    assert Time().lower == Time().upper == 0
    assert Time().comms_overlapped == 0
    assert Stage(()).total("critical") == 0


def test_showing() -> None:
    assert "comm Y     waits F/Y" in repr(ALL)
    assert "<table>" in ALL._repr_html_()
    assert ALL.to_dict()["by_axis"] == {"Y": "F/Y", "X": "F/X"}


AMOUNTS = st.fractions(min_value=Fraction(1, 100), max_value=100).map(
    lambda f: Rational(f.numerator, f.denominator)
)
TERMS = st.one_of(
    st.builds(TimeTerm, st.sampled_from([MATH, HBM]), AMOUNTS),
    st.builds(
        lambda name, v, c: TimeTerm(name, v, (name,), c),
        st.sampled_from("XYZ"),
        AMOUNTS,
        st.booleans(),
    ),
)
TIMES = st.lists(st.lists(TERMS, max_size=6), min_size=1, max_size=3).map(
    lambda stages: Time(tuple(Stage(tuple(terms)) for terms in stages))
)


@given(TIMES)
def test_bounds_hold(made: Time) -> None:
    lower, between, upper = made.lower, made.total("critical"), made.upper
    assert lower <= between <= upper
    assert made.merged().lower == lower
    assert made.merged().upper == upper
    assert made.math <= lower or len(made.stages) > 1
    assert max(made.math, made.hbm) <= lower
    assert made.comms_overlapped <= made.comms <= upper


@given(TIMES, TIMES)
def test_one_after_the_other_takes_longest(first: Time, second: Time) -> None:
    beside, then = first.beside(second), first.then(second)
    assert beside.lower <= then.lower == first.lower + second.lower
    assert beside.upper == then.upper


def test_maximum_waits_for_numbers() -> None:
    made = Maximum(B, D, Maximum(F, B), 0)
    assert made.args == Maximum(D, F, B).args
    assert Maximum(made, made) == made
    assert made.subs({B: 3, D: 7}) == Maximum(7, 3, F)
    assert made.subs({B: 3, D: 7, F: 5}) == 7
    assert Maximum(B) == B
    assert Maximum(sqrt(2), 1) == sqrt(2)
    assert made.is_positive
    assert Maximum(B - D, -1).is_positive is None
    assert latex(Maximum(B, D)) == r"\max\left(B,\; D\right)"
    assert latex(Maximum(B, D) ** 2) == r"\max\left(B,\; D\right)^{2}"
    assert str(Maximum(B, 2)) == "Maximum(2, B)"
    assert Maximum(B, D).doit() == Max(B, D)
    with pytest.raises(TypeError, match="Maximum of nothing"):
        Maximum()


def test_maximum_keeps_a_zero_that_may_win() -> None:
    assert Maximum(0, B - D).args == (Integer(0), B - D)
    assert Maximum(0, B) == B


@given(st.lists(AMOUNTS, min_size=1, max_size=12))
def test_maximum_is_the_largest(values: list[Expr]) -> None:
    names = [symbol(f"v{number}") for number in range(len(values))]
    made = Maximum(*names)
    assert made.xreplace(dict(zip(names, values, strict=True))).doit() == max(values)


def test_maximum_of_many_is_quick() -> None:
    """SymPy's own takes about a second for a dozen terms; this must not."""
    terms = [B * D / symbol(f"w{number}") + F / symbol(f"u{number}") for number in range(24)]
    start = time.process_time()
    Maximum(*terms).subs({B: 4, D: 8})
    assert time.process_time() - start < 0.5
