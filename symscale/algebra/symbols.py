"""The one symbol table: each symbol with its meaning, unit and LaTeX.

SymPy treats two symbols of one name but other assumptions as different, and silently leaves such a
symbol alone when it is substituted. So every symbol of symscale is made here, once, and
:func:`check_known` refuses a stranger of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sympy import Basic, Symbol

from symscale.algebra.errors import SymbolError
from symscale.algebra.printing import MathPrinter, name_to_latex

Kind = Literal["dim", "axis", "links", "count", "rate", "time", "number"]


@dataclass(frozen=True)
class SymbolInfo:
    """What a symbol stands for.

    ``kind`` is ``dim`` (a size of a model or a batch), ``axis`` (the size of a mesh axis),
    ``links`` (physical axes under a mesh axis), ``count``, ``rate`` (FLOP/s or bytes/s), ``time``,
    or ``number`` (any other positive number, perhaps a fraction).
    """

    name: str
    latex: str
    meaning: str
    unit: str
    kind: Kind


_INFO: dict[str, SymbolInfo] = {}
_SYMBOLS: dict[str, Symbol] = {}


def _add(name: str, tex: str, meaning: str, unit: str, kind: Kind) -> Symbol:
    integer = True if kind in ("dim", "axis", "links", "count") else None
    made = Symbol(name, positive=True, integer=integer)
    _INFO[name] = SymbolInfo(name, tex, meaning, unit, kind)
    _SYMBOLS[name] = made
    return made


B = _add("B", "B", "batch, in tokens", "token", "dim")
b = _add("b", "b", "batch, in sequences (B/T)", "sequence", "dim")
T = _add("T", "T", "query length", "token", "dim")
S = _add("S", "S", "key length (context)", "token", "dim")
D = _add("D", "D", "model width (d_model)", "1", "dim")
F = _add("F", "F", "feed-forward width (d_ff)", "1", "dim")
L = _add("L", "L", "number of layers", "layer", "count")
N = _add("N", "N", "number of query heads", "1", "dim")
K = _add("K", "K", "number of key/value heads", "1", "dim")
G = _add("G", "G", "query heads per key/value head (N/K)", "1", "dim")
H = _add("H", "H", "head dimension", "1", "dim")
V = _add("V", "V", "vocabulary size", "1", "dim")
E = _add("E", "E", "number of experts", "1", "dim")
k = _add("k", "k", "experts per token", "1", "count")
imbalance = _add(
    "imbalance",
    r"\beta",
    "load imbalance of experts: tokens of the hottest rank over the mean",
    "1",
    "number",
)
F_e = _add("F_e", "F_e", "feed-forward width of one expert", "1", "dim")
F_s = _add("F_s", "F_s", "feed-forward width of the shared experts together", "1", "dim")
R_q = _add("R_q", "R_q", "rank of the queries of latent attention", "1", "dim")
R_kv = _add(
    "R_kv", r"R_{\mathrm{kv}}", "rank of the keys and values of latent attention", "1", "dim"
)
H_n = _add("H_n", "H_n", "head dimension without rotation, of latent attention", "1", "dim")
H_r = _add("H_r", "H_r", "rotated head dimension, of latent attention", "1", "dim")
H_v = _add("H_v", "H_v", "head dimension of the values", "1", "dim")
T_max = _add("T_max", r"T_{\max}", "rows of the table of learned positions", "token", "dim")
S_w = _add("S_w", "S_w", "window: keys that a token sees at most", "token", "dim")
S_c = _add("S_c", "S_c", "chunk: tokens that see each other", "token", "dim")
N_s = _add("N_s", "N_s", "heads of a recurrent state", "1", "dim")
K_s = _add("K_s", "K_s", "groups of state heads that share a key", "1", "dim")
H_s = _add("H_s", "H_s", "key side of a recurrent state", "1", "dim")
P_s = _add("P_s", "P_s", "value side of a recurrent state", "1", "dim")
J = _add("J", "J", "taps of a short convolution", "token", "dim")
L_dense = _add("L_dense", r"L_{\mathrm{dense}}", "layers with a dense block", "layer", "count")
L_moe = _add("L_moe", r"L_{\mathrm{moe}}", "layers with experts", "layer", "count")
L_full = _add("L_full", r"L_{\mathrm{full}}", "layers that see all keys", "layer", "count")
L_window = _add("L_window", r"L_{\mathrm{window}}", "layers with a window", "layer", "count")
L_enc = _add("L_enc", r"L_{\mathrm{enc}}", "layers of the encoder", "layer", "count")
L_mtp = _add("L_mtp", r"L_{\mathrm{mtp}}", "multi-token-prediction modules", "layer", "count")
X = _add("X", "X", "size of mesh axis X", "1", "axis")
Y = _add("Y", "Y", "size of mesh axis Y", "1", "axis")
Z = _add("Z", "Z", "size of mesh axis Z", "1", "axis")
n = _add("n", "n", "number of chips", "chip", "count")
M_X = _add("M_X", "M_X", "physical axes that mesh axis X is laid over", "1", "links")
M_Y = _add("M_Y", "M_Y", "physical axes that mesh axis Y is laid over", "1", "links")
M_Z = _add("M_Z", "M_Z", "physical axes that mesh axis Z is laid over", "1", "links")
C = _add("C", "C", "matrix rate of one chip in bf16, dense", "FLOP/s", "rate")
C_f32 = _add("C_f32", r"C_{\mathrm{f32}}", "matrix rate of one chip in f32", "FLOP/s", "rate")
C_fp8 = _add(
    "C_fp8", r"C_{\mathrm{fp8}}", "matrix rate of one chip in fp8, dense", "FLOP/s", "rate"
)
C_fp4 = _add(
    "C_fp4", r"C_{\mathrm{fp4}}", "matrix rate of one chip in fp4, dense", "FLOP/s", "rate"
)
C_int8 = _add(
    "C_int8", r"C_{\mathrm{int8}}", "matrix rate of one chip in int8, dense", "FLOP/s", "rate"
)
C_int4 = _add(
    "C_int4", r"C_{\mathrm{int4}}", "matrix rate of one chip in int4, dense", "FLOP/s", "rate"
)
W_hbm = _add("W_hbm", r"W_{\mathrm{hbm}}", "bandwidth of one chip's HBM", "byte/s", "rate")
W_vmem = _add(
    "W_vmem", r"W_{\mathrm{vmem}}", "bandwidth of one chip's on-chip memory", "byte/s", "rate"
)
W_ici = _add(
    "W_ici",
    r"W_{\mathrm{ici}}",
    "ICI bandwidth of one torus axis, both directions",
    "byte/s",
    "rate",
)
W_nvlink = _add(
    "W_nvlink", r"W_{\mathrm{nvlink}}", "egress of one GPU into its node's switch", "byte/s", "rate"
)
W_dcn = _add(
    "W_dcn", r"W_{\mathrm{dcn}}", "data-centre network bandwidth of one chip", "byte/s", "rate"
)
W_pcie = _add(
    "W_pcie", r"W_{\mathrm{pcie}}", "PCIe bandwidth of one chip, one way", "byte/s", "rate"
)
t_hop = _add("t_hop", r"t_{\mathrm{hop}}", "latency of one hop", "s", "time")
t_net = _add("t_net", r"t_{\mathrm{net}}", "latency of one message between hosts", "s", "time")
t_F = _add("t_F", "t_F", "forward of a microbatch through one device's layers", "s", "time")
t_B = _add("t_B", "t_B", "gradient of the inputs of a device's layers, a microbatch", "s", "time")
t_W = _add("t_W", "t_W", "gradient of the weights of a device's layers, a microbatch", "s", "time")
t_FB = _add("t_FB", r"t_{\mathrm{FB}}", "forward and whole backward, overlapped", "s", "time")

#: Names that stand for one thing only; any other may name a dim here and a mesh axis there.
BUILT_IN = frozenset(_INFO)

# Of a pipeline; not built in, since programs have long used these letters for dims and axes.
p = _add("p", "p", "pipeline devices", "1", "count")
m = _add("m", "m", "microbatches in one step", "1", "count")
v = _add("v", "v", "model chunks on one pipeline device", "1", "count")

#: The symbols that ``from symscale import *`` brings.
EXPORTED = (
    "B", "T", "S", "D", "L", "F", "N", "K", "G", "H", "V", "E", "k",
    "X", "Y", "Z", "n", "M_X", "M_Y", "M_Z",
    "C", "C_f32", "C_fp8", "C_fp4", "C_int8", "C_int4",
    "W_hbm", "W_vmem", "W_ici", "W_nvlink", "W_dcn", "W_pcie", "t_hop",
)  # fmt: skip


def symbol(name: str) -> Symbol:
    """The symbol of this name, made as a positive integer size if the table has none yet.

    >>> symbol("D") is D
    True
    >>> symbol("d_model").is_integer
    True
    """
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    return _add(name, name_to_latex(name), f"size of {name}", "1", "dim")


def quantity(name: str, tex: str, meaning: str, unit: str = "1") -> Symbol:
    r"""A positive number with a meaning, not necessarily whole; the one of this name if there is.

    >>> quantity("loss", r"\varepsilon", "share of a step that may be lost").is_integer is None
    True
    """
    return _SYMBOLS[name] if name in _SYMBOLS else _add(name, tex, meaning, unit, "number")


def axis(name: str) -> Symbol:
    """The symbol for the size of the mesh axis of this name.

    >>> axis("data")
    data
    """
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    return _add(name, name_to_latex(name), f"size of mesh axis {name}", "1", "axis")


def links(name: str) -> Symbol:
    """The number of physical axes that the mesh axis of this name is laid over.

    >>> links("X")
    M_X
    """
    full = f"M_{name}"
    if full in _SYMBOLS:
        return _SYMBOLS[full]
    tex = f"M_{{{name_to_latex(name)}}}"
    return _add(full, tex, f"physical axes that mesh axis {name} is laid over", "1", "links")


def info(name: str | Symbol) -> SymbolInfo:
    """Meaning, unit and LaTeX of a symbol.

    Raises:
        SymbolError: no symbol of that name was made.

    >>> info("W_hbm").unit
    'byte/s'
    """
    key = name.name if isinstance(name, Symbol) else name
    if key not in _INFO:
        raise SymbolError(f"no symbol {key!r} in the table; symscale.symbols.describe() lists them")
    return _INFO[key]


def describe(names: Iterable[str] | None = None) -> None:
    """Print every symbol (or the named ones) with its meaning and unit.

    >>> describe(["D", "C"])
    D  model width (d_model) [1]
    C  matrix rate of one chip in bf16, dense [FLOP/s]
    """
    chosen = [info(name) for name in (_INFO if names is None else names)]
    width = max(len(entry.name) for entry in chosen)
    for entry in chosen:
        print(f"{entry.name:<{width}}  {entry.meaning} [{entry.unit}]")


def check_known(expr: Basic) -> None:
    """Refuse a symbol that shares a name with the table's but not its assumptions.

    Raises:
        SymbolError: naming the stranger.

    >>> from sympy import Symbol
    >>> check_known(D * Symbol("B"))
    Traceback (most recent call last):
    symscale.algebra.errors.SymbolError: 'B' is not symscale's symbol B (other assumptions); \
import it: from symscale import B
    """
    for found in expr.free_symbols:
        name = str(found)
        if name in _SYMBOLS and found != _SYMBOLS[name]:
            raise SymbolError(
                f"{name!r} is not symscale's symbol {name} (other assumptions); "
                f"import it: from symscale import {name}"
            )


def latex_names() -> dict[Symbol, str]:
    """Each symbol's LaTeX, for SymPy's printer."""
    return {_SYMBOLS[name]: entry.latex for name, entry in _INFO.items()}


def to_latex(expr: Basic, inline: bool = False) -> str:
    r"""An expression as LaTeX with the table's names: the one door that typesets mathematics.

    ``inline`` writes fractions with a slash, for a line of text or a cell of a table.

    >>> to_latex(C / W_hbm)
    '\\frac{C}{W_{\\mathrm{hbm}}}'
    >>> to_latex(4 * B * D * F / (X * Y), inline=True)
    '4 B D F / (X Y)'
    """
    return str(MathPrinter(latex_names(), inline).doprint(expr))
