"""Text that is cut off, foreign, huge or random: read, or refused in one line, and never hung."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from symscale.xla.hlo import HloError, read_hlo
from symscale.xla.hlo_shapes import Shape, parse_shape, width
from symscale.xla.hlo_text import MAX_CHARACTERS, parse_module

PROGRAM = (Path(__file__).parent / "data" / "mlp.hlo.txt").read_text("utf-8")
MESH = {"X": 2, "Y": 2}


def refusal(text: str) -> str:
    """The message if a text is refused; empty if it is read."""
    try:
        read_hlo(text, MESH)
    except HloError as error:
        return str(error)
    return ""


def refused(text: str) -> str:
    message = refusal(text)
    assert message, "it was read"
    assert "\n" not in message
    return message


def test_a_compiled_program_is_read() -> None:
    report = read_hlo(PROGRAM, MESH)
    # Two matmuls of 256 x 384 x 512 over four devices.
    assert report.dot_flops == 2 * 2 * 256 * 384 * 512 // 4
    kinds = [(found.kind, found.axes) for found in report.collectives]
    assert kinds == [("AllGather", ("X",)), ("AllGather", ("X",)), ("AllReduce", ("Y",))]
    assert report.unread == ()


def test_cut_anywhere_it_is_refused_until_only_the_end_is_missing() -> None:
    end = PROGRAM.rindex("}")
    for cut in range(0, end, 7):
        refused(PROGRAM[:cut])
    assert read_hlo(PROGRAM[: end + 1], MESH) == read_hlo(PROGRAM, MESH)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not HLO"),
        ("\x00\x01\x02", "is not HLO"),
        ("{}", "is not HLO"),
        ("module @jit_f attributes {mhlo.num_partitions = 8 : i32} {\n}", "MLIR"),
        ('#loc1 = loc("x")\nmodule @jit_f {\n}', "MLIR"),
        ("HloModule m\n", "0 ENTRY computations"),
        ("HloModule m\nENTRY a {\n}\nENTRY b {\n}", "2 ENTRY computations"),
        ("HloModule m\nENTRY a {\n}\nHloModule n", "second module on line 4"),
        ("HloModule m\n%a {\n}\n%a {\n}\nENTRY b {\n}", "defined twice"),
        ("HloModule m\nENTRY a {\n  what is this\n}", "line 3 is no instruction"),
        ("HloModule m\nENTRY a {\n  %b = f32[2]\n}", "line 3 has no opcode"),
        ("HloModule m\nENTRY a {\n  %b = (f32[2] add(\n}", "line 3 opens a parenthesis"),
        ("HloModule m\nENTRY a {\n ROOT %b = f32[] call(), to_apply=%gone\n}", "not in the text"),
        ("HloModule m\nENTRY a {\n ROOT %b = f32[] call(), to_apply=%a\n}", "calls itself"),
        (
            "HloModule m\n%c {\n %d = f32[] call(), to_apply=%e\n}\n%e {\n"
            " %f = f32[] call(), to_apply=%c\n}\nENTRY a {\n %g = f32[] call(), to_apply=%c\n}",
            "calls itself",
        ),
    ],
)
def test_refusals_name_what_is_wrong(text: str, words: str) -> None:
    assert words in refused(text)


def test_too_long_is_refused() -> None:
    assert "too long" in refused("HloModule m\n" + " " * MAX_CHARACTERS)


def test_fifty_megabytes_are_read_in_time() -> None:
    noted = 'metadata={op_name="jit(f)/layer_N/dot_general" stack_frame_id=N}\n'
    layer = f"""  %p.N = bf16[64,160]{{1,0}} copy(%p)
  %r.N = bf16[64,160]{{1,0}} all-reduce(%p.N), replica_groups=[2,2]<=[4], {noted}
  %d.N = bf16[64,64]{{1,0}} dot(%r.N, %r.N), lhs_contracting_dims={{1}}, {noted}
"""
    layer += "".join(f"  %e{i}.N = bf16[64,64]{{1,0}} negate(%d.N), {noted}" for i in range(8))
    number = 50 * 2**20 // len(layer.replace("N", "00000")) + 1
    body = "".join(layer.replace("N", str(i)) for i in range(number))
    text = f"HloModule m\nENTRY %e {{\n  %p = bf16[64,160]{{1,0}} parameter(0)\n{body}}}\n"
    assert len(text) > 48 * 2**20
    # Processor time: how busy the machine is does not count.
    start = time.process_time()
    report = read_hlo(text, MESH)
    seconds = time.process_time() - start
    assert len(report.collectives) == len(report.dots) == number
    assert report.unread == ()
    assert seconds < 30, f"{seconds:.0f} s"


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nENTRY e {\n  %a = f32[] add(" + "(" * 500_000,
        "HloModule m\nENTRY e {\n  %a = f32[] add(" + '"\\"' * 300_000,
        "HloModule m\nENTRY e {\n  %a = " + "(" * 500_000 + ")" * 500_000 + " add()\n}",
        "HloModule m\nENTRY e {\n  " + "a" * 1_000_000 + "\n}",
        "HloModule m\n" + "%a {\n" * 100_000,
        "HloModule m\n" + "x{" * 500_000,
        "HloModule m\nENTRY e {\n  %a = f32[] add()" + ",{" * 300_000 + "\n}",
        " " * 1_000_000,
        "\n" * 1_000_000,
    ],
    ids=range(9),
)
def test_nothing_hangs(text: str) -> None:
    start = time.perf_counter()
    assert len(refusal(text)) < 400
    assert time.perf_counter() - start < 20


def test_deep_calls_and_doubling_calls_are_linear() -> None:
    depth = 5000
    parts = ["%f0 {\n  ROOT %p0 = f32[2]{0} parameter(0)\n}"]
    for i in range(1, depth):
        call = f"f32[2]{{0}} call(%p{i}), to_apply=%f{i - 1}"
        parts.append(
            f"%f{i} {{\n  %p{i} = f32[2]{{0}} parameter(0)\n  %x{i} = {call}\n"
            f"  ROOT %y{i} = {call}\n}}"
        )
    entry = f"""ENTRY %e {{
  %p = f32[2]{{0}} parameter(0)
  %r = f32[2]{{0}} all-reduce(%p), replica_groups={{}}
  ROOT %c = f32[2]{{0}} call(%r), to_apply=%f{depth - 1}
}}"""
    report = read_hlo("HloModule m\n" + "\n".join([*parts, entry]), MESH)
    assert [found.kind for found in report.collectives] == ["AllReduce"]


WORDS = st.sampled_from(
    [
        *"(){}[],=%\"'\\ \n",
        "HloModule m\n",
        "ENTRY %e {\n",
        "}\n",
        "ROOT ",
        "%a = ",
        "f32[8]{0} ",
        "(f32[2], s32[]) ",
        "parameter(0)",
        "all-reduce(%a)",
        "all-gather-start(%a)",
        "while(%a)",
        "fusion(%a)",
        "dot(%a, %a)",
        "dynamic-slice(%a, %a)",
        ", replica_groups={{0,1},{2,3}}",
        ", replica_groups=[2,2]<=[4]",
        ", calls=%e",
        ", body=%b, condition=%b",
        ", to_apply=%b",
        "%b {\n",
        "partition-id()",
        "get-tuple-element(%a), index=0",
        "tuple(%a, %a)",
        "constant({1,2})",
        ", lhs_contracting_dims={0}",
        "/*index=5*/",
    ]
)


@given(st.one_of(st.text(), st.lists(WORDS, max_size=60).map("".join)))
@example("HloModule m\nENTRY %e {\n%a = f32[²] parameter(0)\n%b = f32[] all-reduce(%a)\n}")
def test_any_text_is_read_or_refused(text: str) -> None:
    for prefix in ("", "HloModule m\nENTRY %e {\n"):
        assert "\n" not in refusal(prefix + text)


@given(st.data())
def test_a_damaged_program_is_read_or_refused(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(PROGRAM)))
    removed = data.draw(st.integers(0, 40))
    added = data.draw(st.text(max_size=5))
    assert "\n" not in refusal(PROGRAM[:place] + added + PROGRAM[place + removed :])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("bf16[16,96]{1,0}", 3072),
        ("f8e4m3fn[5]", 5),
        ("f8e5m2[5]", 5),
        ("s4[3]{0:E(4)}", 2),
        ("pred[]", 1),
        ("c64[2]", 16),
        ("f32[<=8,2]", 64),
        ("f32[0,7]", 0),
        ("token[]", 0),
    ],
)
def test_bytes_of_shapes(text: str, size: int) -> None:
    assert parse_shape(text).bytes == size


@pytest.mark.parametrize(
    "text", ["", "f32", "(f32[], f32[])", "f32[a]", "f32[-1]", "f32[9" + "9" * 20]
)
def test_wrong_shapes_are_refused(text: str) -> None:
    with pytest.raises(HloError):
        parse_shape(text)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(HloError, match="float7"):
        width("float7")
    with pytest.raises(HloError):
        _ = Shape("bf", (2,)).bytes


def test_text_of_a_module_without_names_of_computations_is_read() -> None:
    module = parse_module(
        "// a comment\nHloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}"
    )
    assert module.entry == "e"
    assert module.partitions is None
