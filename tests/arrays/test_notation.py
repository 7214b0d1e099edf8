"""The notation: what parses, how it prints, where errors point; and text that is no notation."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symscale.algebra.errors import NotationError, ProgramError
from symscale.arrays.array import array
from symscale.arrays.dtype import DTYPES
from symscale.arrays.notation import ArrayText, DimText, axes_text, parse_array, parse_statement
from symscale.programs.program import program

PRINTED = {
    "In[B_X, D_Y]": "In[B_X, D_Y]",
    "In: bf16[B_X, D_Y]": "In: bf16[B_X, D_Y]",
    " In :  bfloat16 [ B_X ,D_Y ] ": "In: bf16[B_X, D_Y]",
    "W: float32[D]": "W: f32[D]",
    "W: int4[D, F]": "W: int4[D, F]",
    "I[I_XYZ]": "I[I_XYZ]",
    "I[I_ZX]": "I[I_ZX]",
    "I[D_{data,model}]": "I[D_{data,model}]",
    "I[D_{X, Y}]": "I[D_XY]",
    "I[D_{data}, F_X]": "I[D_{data}, F_X]",
    "Act[d_model, n_heads_X]": "Act[d_model, n_heads_X]",
    "Act[d_model_X]": "Act[d_model_X]",
    "Act[n_Q_{}]": "Act[n_Q_{}]",
    "Act[n_Q_X]": "Act[n_Q_X]",
    "Out[B, D]{U_Y}": "Out[B, D]{U_Y}",
    "Out[B_X, D]{U_YZ}": "Out[B_X, D]{U_YZ}",
    "Out[B]{U_{data,X}}": "Out[B]{U_{data,X}}",
    "s[]": "s[]",
    "s[]{U_X}": "s[]{U_X}",
    "x'[B]": "x'[B]",
    "Mask[128, 128b]": "Mask[128, 128b]",
}


@pytest.mark.parametrize("text", PRINTED)
def test_parse_and_print(text: str) -> None:
    parsed = parse_array(text)
    assert str(parsed) == PRINTED[text]
    assert parse_array(str(parsed)) == parsed


def test_parts_of_an_array() -> None:
    parsed = parse_array("KV: int8[B_X, d_head, S_{data,Y}]{U_Z}")
    assert parsed == ArrayText(
        "KV",
        (DimText("B", ("X",)), DimText("d_head"), DimText("S", ("data", "Y"))),
        DTYPES["int8"],
        ("Z",),
    )
    assert axes_text(["X", "data"]) == "{X,data}"


STATEMENTS = {
    "A[B, D] * W[D, F] -> O[B, F]": ("*", 2, ()),
    "A[B, D]·W[D, F]->O[B, F]": ("*", 2, ()),
    "A[B] + C[B] -> O[B]": ("+", 2, ()),
    "A[B] + C[B] + E[B] -> O[B]": ("+", 3, ()),
    "relu(A[B]) -> O[B]": ("relu", 1, ()),
    "norm(A[B, D], g[D]; D) -> O[B, D]": ("norm", 2, ("D",)),
    "sum(A[B, D, F]; D, F) -> O[B]": ("sum", 1, ("D", "F")),
    "A[B] -> O[b, T]": ("", 1, ()),
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(text: str) -> None:
    parsed = parse_statement(text)
    assert (parsed.op, len(parsed.operands), parsed.over) == STATEMENTS[text]
    assert parsed.result.name == "O"


BAD_ARRAYS = {
    "In[B_X, D_X]": "mesh axis X is used twice in In, at character 11 of 'In[B_X, D_➤X]'",
    "In[B_XX]": "mesh axis X is used twice in In, at character 7 of 'In[B_X➤X]'",
    "In[B_{X,X}]": "mesh axis X is used twice in In, at character 9 of 'In[B_{X,➤X}]'",
    "In[B_X]{U_X}": "mesh axis X is used twice in In, at character 11 of 'In[B_X]{U_➤X}'",
    "In: bf8[B]": "unknown dtype 'bf8'; known: f32, bf16, f16, fp8, fp4, int32, int8, int4, "
    "bool; did you mean fp8 or bf16?, at character 5 of 'In: ➤bf8[B]'",
    "In[B, D": "expected ',' or ']' in In, at character 8 of 'In[B, D➤'",
    "In B]": "expected '[' and the dims of In, at character 4 of 'In ➤B]'",
    "In[B,,D]": "expected a dim of In, at character 6 of 'In[B,➤,D]'",
    "In[B]]": "unexpected text, at character 6 of 'In[B]➤]'",
    "In[B, B]": "dim B occurs twice in In, at character 9 of 'In[B, B]➤'",
    "In[4, 4]": "dim 4 occurs twice in In, at character 9 of 'In[4, 4]➤'",
    "In[B]{X}": "expected 'U_' and the mesh axes of the partial sums, "
    "at character 7 of 'In[B]{➤X}'",
    "In[B]{U_X": "expected '}', at character 10 of 'In[B]{U_X➤'",
    "In[B_{X]": "expected ',' or '}' among the mesh axes, at character 8 of 'In[B_{X➤]'",
    "In[B]{U_}": "expected mesh axes, at character 9 of 'In[B]{U_➤}'",
    "": "expected an array's name, at character 1 of '➤'",
    "3[B]": "expected an array's name, at character 1 of '➤3[B]'",
}
BAD_STATEMENTS = {
    "A[B] * W[B]": "expected '->' and the result, at character 12 of 'A[B] * W[B]➤'",
    "A[B] * W[B] = O[B]": "expected '->' and the result, at character 13 of 'A[B] * W[B] ➤= O[B]'",
    "A[B] * W[B] + C[B] -> O[B]": "one line holds one operation, at character 13 of "
    "'A[B] * W[B] ➤+ C[B] -> O[B]'",
    "relu(A[B] -> O[B]": "expected ')', at character 11 of 'relu(A[B] ➤-> O[B]'",
    "sum(A[B];) -> O[]": "expected a dim, at character 10 of 'sum(A[B];➤) -> O[]'",
    "A[B, D * W[D] -> O[B]": "expected ',' or ']' in A, at character 8 of 'A[B, D ➤* W[D] -> O[B]'",
    "-> O[B]": "expected an array or a function, at character 1 of '➤-> O[B]'",
}


@pytest.mark.parametrize("text", BAD_ARRAYS)
def test_errors_point_at_the_character(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_array(text)
    assert str(caught.value) == BAD_ARRAYS[text]


@pytest.mark.parametrize("text", BAD_STATEMENTS)
def test_errors_of_statements_point_at_the_character(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        parse_statement(text)
    assert str(caught.value) == BAD_STATEMENTS[text]


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,3}(_[a-z]{1,3})?'?", fullmatch=True)
DIMS = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,3}(_[a-zA-Z]{1,3})?_?", fullmatch=True)
AXES = st.from_regex(r"[A-Z]|[a-z][a-z0-9]{1,4}", fullmatch=True)


@st.composite
def array_texts(draw: st.DrawFn) -> ArrayText:
    """Any array that can be written down."""
    names = draw(st.lists(DIMS, max_size=4, unique=True))
    axes = draw(st.lists(AXES, max_size=5, unique=True))
    places = [draw(st.integers(0, len(names))) for _ in axes]
    held = [
        tuple(a for a, p in zip(axes, places, strict=True) if p == i) for i in range(len(names) + 1)
    ]
    dims = tuple(DimText(name, held[i]) for i, name in enumerate(names))
    kind = draw(st.sampled_from([None, *DTYPES.values()]))
    return ArrayText(draw(NAMES), dims, kind, held[-1])


@settings(max_examples=300)
@given(array_texts())
def test_print_and_parse_give_the_same_back(made: ArrayText) -> None:
    assert parse_array(str(made)) == made


@given(array_texts())
def test_an_array_prints_itself_under_any_sharding(made: ArrayText) -> None:
    with contextlib.suppress(NotationError):
        whole = array(str(made))
        for one in (whole, whole.unsharded):
            assert array(str(one)) == one
            assert eval(repr(one), {"array": array}) == one


LINE = "sum(A_b: bf16[B_X, D_{data,Y}]{U_Z}, W'[128]; D) * + -> Out: int4[B, D_XY]"
SCRAPS = st.lists(
    st.one_of(
        st.sampled_from(list("[]{}(),;:_*·+->'➤ \n\tXYUB1é\0")), st.sampled_from(LINE.split())
    ),
    max_size=12,
).map("".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good line with a piece cut out and scraps put in."""
    start, end = sorted((draw(st.integers(0, len(LINE))), draw(st.integers(0, len(LINE)))))
    return LINE[:start] + draw(SCRAPS) + LINE[end:]


@settings(max_examples=400)
@given(st.one_of(st.text(max_size=30), SCRAPS, damaged()))
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    for read in (parse_array, parse_statement):
        try:
            read(text)
        except NotationError as error:
            where = re.search(r", at character (\d+) of ", str(error))
        else:
            continue
        assert where is not None
        assert 1 <= int(where.group(1)) <= len(text) + 1
    # What parses may still contradict itself; nothing but these errors comes out.
    with contextlib.suppress(NotationError):
        array(text)
    with contextlib.suppress(NotationError, ProgramError):
        program(text)
