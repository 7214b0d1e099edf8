"""What kind of work an op of a trace is: a matmul, a fusion, a collective, or something else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from symscale.xla.hlo_collectives import KINDS as OPCODES
from symscale.xla.hlo_text import Computation, Instruction, parse_module

MATMUL, FUSION, OTHER = "matmul", "fusion", "other"
COLLECTIVES = ("AllGather", "ReduceScatter", "AllReduce", "AllToAll", "CollectivePermute")
# Ops that only contain others: their time is that of what they contain.
CONTROL = "control"
KINDS = (MATMUL, FUSION, *COLLECTIVES, OTHER)

# The first that is found in a name decides; a ReduceScatter may be called all-reduce-scatter.
_PATTERNS = (
    ("ReduceScatter", r"reduce-?scatter|psum-?scatter"),
    ("AllGather", r"all-?gather"),
    ("AllReduce", r"all-?reduce|\bpsum|\bpmax|\bpmin|\bpmean"),
    ("AllToAll", r"all-?to-?all"),
    ("CollectivePermute", r"(?:collective|\bp)-?permute|nccl.*send-?recv"),
    (CONTROL, r"^(?:while|conditional|call)\b"),
    # ynn_fusion is the matmul of XLA on CPU.
    (MATMUL, r"\bdot|gemm|matmul|cublas|convolution|\bconv\b|\bynn-fusion|einsum"),
    (FUSION, r"fusion|fused"),
)
_COMPILED = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS]


def kind_of(name: str, category: str = "") -> str:
    """The kind by an op's name, and by the category that some profilers state.

    >>> kind_of("all-reduce-scatter.3"), kind_of("fusion.7", "convolution fusion")
    ('ReduceScatter', 'matmul')
    >>> kind_of("psum.8"), kind_of("ynn_fusion.1"), kind_of("wrapped_copy")
    ('AllReduce', 'matmul', 'other')
    """
    for text in (category, name):
        plain = text.replace("_", "-")
        for kind, pattern in _COMPILED:
            if plain and pattern.search(plain) and (kind != FUSION or text == name):
                return kind
    return OTHER


def kinds_in_program(text: str) -> Mapping[str, str]:
    """The kind of each instruction of an HLO module, fusions with a dot inside as matmuls.

    Raises ``HloError`` if the text is not HLO.
    """
    module = parse_module(text)
    kinds: dict[str, str] = {}
    for computation in module:
        for instruction in computation.instructions.values():
            kinds[instruction.name] = _instruction_kind(module.computations, instruction)
    return kinds


def _instruction_kind(computations: Mapping[str, Computation], found: Instruction) -> str:
    base = found.opcode.removesuffix("-start").removesuffix("-done")
    if base in OPCODES:
        return OPCODES[base]
    if base == "fusion":
        inner = (computations.get(name) for name in found.called("calls"))
        return MATMUL if any(entry is not None and entry.has_dot for entry in inner) else FUSION
    if base in ("while", "conditional", "call"):
        return CONTROL
    if base in ("custom-call", "async"):
        return kind_of(found.name)
    return MATMUL if base in ("dot", "convolution") else OTHER
