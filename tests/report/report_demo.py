"""A document that uses every block, with formulas long, wide and nested, and hostile text."""

from __future__ import annotations

from math import log10

from sympy import And, Eq, Expr, Rational, Symbol, sqrt

from symscale.algebra.derivation import Derivation
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import (
    M_X,
    M_Y,
    B,
    C,
    D,
    F,
    H,
    K,
    L,
    N,
    S,
    V,
    W_hbm,
    W_ici,
    X,
    Y,
    n,
)  # fmt: skip
from symscale.report.document import (
    Document,
    callout,
    display,
    equation,
    listing,
    section,
    table,
    text,
)
from symscale.report.numbers import count, memory, number, percent, rate, seconds
from symscale.report.plots import LinePlot, hline, line, spot, vline
from symscale.report.rich import Code, Math, Strong

HOSTILE = r"a_b%$#&\input{x}<script>alert(1)</script>^~{}--\end{document}"

MATH_TIME = 4 * B * D * F / (X * Y * C)
COMM_TIME = 4 * D * F / (Y * M_X * W_ici) + 4 * B * D / (X * M_Y * W_ici)
BEST_X = sqrt(B * n * M_X / (F * M_Y))
CHIP = {C: 4.59e14, W_hbm: 2.765e12}


def long_sum() -> Expr:
    """A layer's FLOPs, attention and all, in many terms."""
    per_token = 2 * D * N * H + 4 * D * K * H + 2 * N * H * D + 6 * D * F + 4 * S * N * H
    return (B * per_token * Rational(3) / (X * Y) + 2 * B * D * V + 12 * B * D / X).expand()


def long_quotient() -> Expr:
    """A sum over a sum, each too wide for a line."""
    over = sum((Symbol(f"W_{i}", positive=True) * B * D**i for i in range(1, 9)), B)
    under = sum((Symbol(f"t_{i}", positive=True) * F**i * n for i in range(1, 9)), F)
    return over / under


def steps() -> Derivation:
    """Steps with and without mathematics."""
    return (
        Derivation()
        .then("the time of the matrix products", MATH_TIME, "FLOPs over the chip's rate")
        .then("the time of both collectives", COMM_TIME, "bytes over bandwidth, summed over axes")
        .then("X*Y = n, so Y is eliminated", Eq(Y, n / X), "the mesh has n chips")
        .then("both terms are equal at the minimum", None, "a posynomial of two terms")
        .then("so the best split is", Eq(X, BEST_X), "degree of difficulty 0")
        .then("compute-bound when", B / n > 4 * (C / W_ici) ** 2 / (M_X * M_Y * F), "")
        .then("and in full", Eq(Symbol("T_step"), Maximum(long_sum() / C, COMM_TIME)), "overlap")
    )


def roofline() -> LinePlot:
    """Attainable rate against arithmetic intensity."""
    xs = [10 ** (i / 8) for i in range(41)]
    roof = [(x, min(x * 2.765e12, 4.59e14)) for x in xs]
    return LinePlot(
        "Roofline of one chip", "arithmetic intensity (FLOP/byte)", "attainable rate (FLOP/s)",
        (line("bf16", roof), line("int8 (twice the rate)",
              [(x, min(x * 2.765e12, 9.18e14)) for x in xs], "dashed")),
        xlog=True, ylog=True,
        markers=(vline(166, "critical intensity 166"), hline(4.59e14, "peak 459 TFLOP/s")),
        spots=(spot(1.5, 1.5 * 2.765e12, "decode"), spot(2400, 4.59e14, "training")),
        caption="Points are the layer's matrix products at two batch sizes.",
    )  # fmt: skip


def times() -> LinePlot:
    """Times against batch for several strategies."""
    xs = [2.0 ** (16 + i / 4) for i in range(33)]
    curves = []
    for i, name in enumerate(("data parallel", "fsdp", "tensor", "fsdp+tp", HOSTILE[:12])):
        curves.append(line(f"{name}: math", [(x, 1e-9 * x * (i + 1)) for x in xs], "solid", i))
        curves.append(line(f"{name}: communication", [(x, 1e-3 * (i + 1)) for x in xs],
                           "dashed", i))  # fmt: skip
    marks = (vline(2**20, "1 Mi tokens"), vline(2**20 * 1.2, "1.2 Mi tokens"),
             vline(2**22, "4 Mi tokens"), vline(2**24, "16 Mi tokens"))  # fmt: skip
    return LinePlot("Time of one layer", "batch (tokens)", "seconds", tuple(curves),
                    xlog=True, ylog=True, markers=marks)  # fmt: skip


def linear() -> LinePlot:
    """Plain axes."""
    points = [(x / 4, 100 * log10(1 + x)) for x in range(41)]
    return LinePlot("Utilisation", "chips (thousands)", "percent", (line("MFU", points, "dotted"),))


def _formulas() -> tuple[object, ...]:
    return (
        text("Inline, ", MATH_TIME, " and ", BEST_X, " and the relation ", B > D / F, "; the axis ",
             Code("D_{data,model}"), " and ", Strong("strong words"), "; a rate of ",
             rate(4.59e14), ", ", number(4.59e14, "FLOP/s"), ", ", seconds(9.2e-4), ", ",
             seconds(9.2e-6), ", ", memory(65.25e9), ", ", count(70553706496), ", ",
             percent(0.923), ", and \u2264 \u2192 \u00b7 \u03b1 \u00e9."),
        display(long_sum()),
        display(("arithmetic", equation(Math.name("T_math"), MATH_TIME, seconds(0.92e-3))),
                (("communication over ", X, " and ", Y), Eq(Symbol("T_comms"), COMM_TIME)),
                ("best split", equation(X, BEST_X, number(1619.2))),
                ("a long one", long_sum() / C),
                ("a condition", And(B > COMM_TIME, X < BEST_X * 4, n / 2 > Y))),
        display(long_quotient(), Eq(Symbol("Q"), long_quotient())),
        display(Maximum(long_sum() / C, COMM_TIME, long_quotient())),
        display(sqrt(long_sum())),
        display(4 * B * D * 459 * 10**12 / (7 * C)),
    )  # fmt: skip


def _tables() -> tuple[object, ...]:
    strategies = [
        ("data parallel", Code("In[B_X,D] Win[D,F] Wout[F,D] Out[B_X,D]"), 0, 8 * D * F),
        ("FSDP / ZeRO-3", Code("In[B_X,D] Win[D_X,F] Wout[F,D_X] Out[B_X,D]"), 4 * D * F,
         8 * D * F),
        ("FSDP + tensor", Code("In[B_X,D_Y] Win[D_X,F_Y] Wout[F_Y,D_X] Out[B_X,D_Y]"),
         4 * B * D / X + 4 * D * F / Y, 4 * B * D / X + 8 * D * F / Y),
    ]  # fmt: skip
    parameters = [
        ("MLP", 3 * D * F * L, 56371445760, 0.799), ("attention", 2 * D * H * (N + K) * L,
         12079595520, 0.171), ("embedding and head", 2 * D * V, 2101346304, 0.0298),
    ]  # fmt: skip
    return (
        table(["Strategy", "Sharding", ("Forward bytes", "left"), ("Backward bytes", "left")],
              strategies, caption="Strategies", notes=["bf16, two matmuls a layer."]),
        table(["Component", "Formula", ("Count", "right"), ("Share", "right")],
              [(a, b, c, percent(d)) for a, b, c, d in parameters], caption=("Parameters of ",
              Code(HOSTILE))),
        table(["Symbol", "Meaning", "Value"], [(B, "batch " * 30, memory(1.5e12)),
              (D, HOSTILE, long_sum())]),
        table([f"column {i} of many" for i in range(9)], [[i * 10**i for i in range(9)],
              [Math(B * D), *("x" * i for i in range(8))]]),
        table(["row", ("seconds", "right")], [(i, seconds(10.0 ** (6 - i / 3))) for i in range(48)],
              caption="Long"),
    )  # fmt: skip


def _algorithm() -> object:
    return listing(
        [
            "In: bf16[B_X, D_Y] \u00b7 Win[D_X, F_Y] -> Tmp[B_X, F_Y]",
            "  Win[D, F_Y]   = AllGather_X(Win[D_X, F_Y])     # 4*D*F/Y bytes, prefetchable",
            "  Tmp[B_X, F_Y] = In[B_X, D] \u00b7 Win[D, F_Y]        # 4*B*D*F/(X*Y) FLOPs",
            "",
            "  Out[B_X, D_Y] = ReduceScatter_Y(Out[B_X, D]{U_Y})  # " + "a very long remark " * 6,
            HOSTILE,
        ],
        caption="The derived algorithm",
    )


def demo() -> Document:
    """The demonstration document."""
    return Document(
        "Training LLaMA 3 70B on a TPU v5p pod",
        f"a demonstration with {HOSTILE}",
        text("Every block, with ", MATH_TIME, " inside. ", "The text goes on. " * 14).parts,
        (
            section("Formulas", *_formulas()),
            section("A derivation", steps_block()),
            section("Tables", *_tables()),
            section("Boxes", callout("good", "Compute-bound by ", percent(0.02), ": ", n * F < B,
                                     title="Fits"),
                    callout("bad", "Needs ", memory(200e9), ", the chip has ", memory(95e9), ".",
                            title="Does not fit"),
                    callout("note", HOSTILE, " word" * 60), level=2),
            section("Algorithm", _algorithm()),
            section("Plots", roofline(), times(), linear()),
        ),
    )  # fmt: skip


def steps_block() -> object:
    """The derivation as a block."""
    from symscale.report.document import DerivationBlock

    return DerivationBlock(steps(), "The best split")
