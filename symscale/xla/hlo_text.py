"""HLO text taken apart into computations and instructions, in one pass over the characters.

Operands and attributes stay text until somebody asks: most instructions are only passed by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from symscale.xla.hlo_error import HloError, excerpt
from symscale.xla.hlo_shapes import Shape, parse_shapes

MAX_CHARACTERS = 256 * 2**20

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_PARENTHESES = re.compile(rf"{_STRING}|[()]", re.DOTALL)
_NESTING = re.compile(rf"{_STRING}|[(){{}}\[\],]", re.DOTALL)
_BRACKET = re.compile(r'["(){}\[\]]')
_COMMENT = re.compile(r"/\*[^*]*\*/")
_LEFT = re.compile(r"[ \t]*(ROOT[ \t]+)?%?([^\s=,(){}%]+)[ \t]*=[ \t]*")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_HEAD = re.compile(r"(ENTRY\s+)?%?([^\s=,(){}%]+)\s*(?:\(|\{)")


@dataclass(frozen=True, eq=False)
class Instruction:
    """One line ``name = shape opcode(operands), attributes``."""

    name: str
    shape_text: str
    opcode: str
    operands_text: str
    attributes_text: str
    root: bool

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The arrays of the result, tuples flattened."""
        return parse_shapes(self.shape_text)

    @property
    def is_tuple(self) -> bool:
        """Whether the result is a tuple."""
        return self.shape_text.startswith("(")

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands, without ``%`` and without the shapes some printers add."""
        return tuple(part.split()[-1].lstrip("%") for part in split_top(self.operands_text))

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        """Attributes by name, each value as text."""
        return parse_attributes(self.attributes_text)

    def called(self, *names: str) -> tuple[str, ...]:
        """Computations that the given attributes name, in order."""
        found: list[str] = []
        for name in names:
            value = self.attributes.get(name, "")
            found += [part.strip().lstrip("%") for part in value.strip("{} ").split(",")]
        return tuple(part for part in found if part)


@dataclass(frozen=True, eq=False)
class Computation:
    """A named list of instructions."""

    name: str
    entry: bool
    instructions: Mapping[str, Instruction]

    @cached_property
    def root(self) -> Instruction | None:
        """The instruction whose value the computation returns: marked, else the last."""
        marked = [entry for entry in self.instructions.values() if entry.root]
        last = marked or list(self.instructions.values())
        return last[-1] if last else None

    @cached_property
    def parameters(self) -> Mapping[int, Instruction]:
        """Parameters by number."""
        found = (entry for entry in self.instructions.values() if entry.opcode == "parameter")
        return {int(p.operands_text): p for p in found if p.operands_text.strip().isdecimal()}

    @cached_property
    def has_dot(self) -> bool:
        """Whether an instruction is a dot."""
        return any(entry.opcode == "dot" for entry in self.instructions.values())

    @cached_property
    def users(self) -> Mapping[str, tuple[tuple[Instruction, int], ...]]:
        """Who uses an instruction's value, and as which operand."""
        found: dict[str, list[tuple[Instruction, int]]] = {}
        for entry in self.instructions.values():
            if entry.opcode not in ("parameter", "constant"):
                for position, name in enumerate(entry.operands):
                    found.setdefault(name, []).append((entry, position))
        return {name: tuple(uses) for name, uses in found.items()}


@dataclass(frozen=True, eq=False)
class Module:
    """A parsed module."""

    header: str
    computations: Mapping[str, Computation]
    entry: str

    def __iter__(self) -> Iterator[Computation]:
        return iter(self.computations.values())

    @cached_property
    def partitions(self) -> int | None:
        """The number of devices that the header states, if it does."""
        found = re.search(r"\bnum_partitions=(\d{1,9})\b", self.header)
        return int(found[1]) if found else None


def split_top(text: str) -> list[str]:
    """Parts between the commas that lie in no bracket and no string; empty parts left out.

    >>> split_top("%a, f32[2,3]{1,0} %b")
    ['%a', 'f32[2,3]{1,0} %b']
    """
    if "/*" in text:
        text = _COMMENT.sub("", text)
    if not _BRACKET.search(text):
        return [part for part in map(str.strip, text.split(",")) if part]
    parts, depth, start = [], 0, 0
    for found in _NESTING.finditer(text):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "," and depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def parse_attributes(text: str) -> dict[str, str]:
    """Attributes by name.

    >>> parse_attributes(", channel_id=1, replica_groups=mesh['a'=2,'b'=2], device_ids=(1,0) {'a'}")
    {'channel_id': '1', 'replica_groups': "mesh['a'=2,'b'=2], device_ids=(1,0) {'a'}"}
    """
    found: dict[str, str] = {}
    for part in split_top(text):
        name, _, value = part.partition("=")
        if name == "device_ids" and "{" not in found.get("replica_groups", "{"):
            # The order of a mesh's devices stands behind a comma of its own.
            found["replica_groups"] += f", {part}"
        else:
            found[name.strip()] = value.strip()
    return found


def parse_module(text: str) -> Module:
    """The module of a text; raises ``HloError`` for anything else.

    >>> parse_module("not HLO")
    Traceback (most recent call last):
    symscale.xla.hlo_error.HloError: text 'not HLO' is not HLO: it has no line 'HloModule NAME'
    """
    if len(text) > MAX_CHARACTERS:
        raise HloError(
            f"HLO text of {len(text)} characters is too long; at most {MAX_CHARACTERS} are read"
        )
    header, position = _header(text)
    computations: dict[str, Computation] = {}
    while position < len(text):
        end = _line_end(text, position)
        line = text[position:end].strip()
        if line.startswith("HloModule"):
            raise HloError(
                f"HLO text has a second module on line {_line(text, position)}; give one"
            )
        if line.endswith("{") and (head := _HEAD.match(line)):
            computation, position = _computation(text, end + 1, head[2], bool(head[1]))
            if computation.name in computations:
                raise HloError(f"HLO computation {computation.name} is defined twice")
            computations[computation.name] = computation
        else:
            position = end + 1
    entries = [name for name, found in computations.items() if found.entry]
    if len(entries) != 1:
        cut = ": is it cut off?" if not entries else "; one was expected"
        raise HloError(f"HLO text has {len(entries)} ENTRY computations{cut}")
    return Module(header, computations, entries[0])


def _header(text: str) -> tuple[str, int]:
    """The module's first line, and where the next begins."""
    position = 0
    while position < len(text):
        end = _line_end(text, position)
        line = text[position:end].strip()
        if line.startswith("HloModule "):
            return line, end + 1
        if line and not line.startswith("//"):
            break
        position = end + 1
    if re.match(r"\s*(?:#loc\S*.*\n\s*)*module\b", text[:2000]):
        raise HloError("text is an MLIR module, not HLO: give what compiled.as_text() prints")
    raise HloError(f"text {excerpt(text)} is not HLO: it has no line 'HloModule NAME'")


def _computation(text: str, position: int, name: str, entry: bool) -> tuple[Computation, int]:
    """The instructions up to the closing brace, and where the text goes on."""
    instructions: dict[str, Instruction] = {}
    size = len(text)
    while position < size:
        found = _LEFT.match(text, position)
        if found is not None:
            instruction, position = _instruction(text, found)
            instructions[instruction.name] = instruction
            continue
        end = _line_end(text, position)
        line = text[position:end].strip()
        if line.startswith("}"):
            return Computation(name, entry, instructions), end + 1
        if line and not line.startswith("//"):
            where = _line(text, position)
            raise HloError(f"HLO line {where} is no instruction: {excerpt(line)}")
        position = end + 1
    raise HloError(f"HLO computation {name} has no closing brace: the text is cut off")


def _instruction(text: str, left: re.Match[str]) -> tuple[Instruction, int]:
    start = left.end()
    if text.startswith("(", start):
        after_shape = _close(text, start) + 1
    else:
        space = text.find(" ", start, _line_end(text, start))
        after_shape = space if space >= 0 else start
    opcode = _OPCODE.match(text, after_shape)
    if opcode is None:
        line = text[left.start() : _line_end(text, left.start())]
        raise HloError(
            f"HLO line {_line(text, left.start())} has no opcode behind its shape: {excerpt(line)}"
        )
    close = _close(text, opcode.end() - 1)
    end = _line_end(text, close)
    made = Instruction(
        name=left[2],
        shape_text=text[start:after_shape],
        opcode=opcode[1],
        operands_text=text[opcode.end() : close],
        attributes_text=text[close + 1 : end],
        root=left[1] is not None,
    )
    return made, end + 1


def _close(text: str, opening: int) -> int:
    """Where the parenthesis that opens at a place closes."""
    near = text.find(")", opening)
    if near > 0 and text.find("(", opening + 1, near) < 0 and text.find('"', opening, near) < 0:
        return near
    depth = 0
    for found in _PARENTHESES.finditer(text, opening):
        if found[0] == "(":
            depth += 1
        elif found[0] == ")":
            depth -= 1
            if depth == 0:
                return found.start()
    raise HloError(
        f"HLO line {_line(text, opening)} opens a parenthesis that nothing closes: "
        "the text is cut off"
    )


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
