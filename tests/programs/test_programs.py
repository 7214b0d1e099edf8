"""Programs before sharding: what they hold, and what they refuse."""

from __future__ import annotations

import pytest

from symscale.algebra.errors import NotationError, ProgramError, ShardingError, SymbolError
from symscale.algebra.symbols import B, D, F, V
from symscale.programs.program import program
from tests.algebra.equality import assert_same

LINES = ("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
MLP = program(*LINES)


def test_roles_of_arrays() -> None:
    assert MLP.inputs == ("In",)
    assert MLP.weights == ("Win", "Wout")
    assert MLP.made == ("Tmp", "Out")
    assert MLP.outputs == ("Out",)
    assert_same(MLP.parameters, 2 * D * F)
    chosen = program(*LINES, inputs=["In", "Win"])
    assert chosen.weights == ("Wout",)


def test_printing_gives_the_lines_back() -> None:
    assert str(MLP).splitlines() == [line.replace("*", "·") for line in LINES]
    assert program(*str(MLP).splitlines()).ops == MLP.ops
    assert repr(MLP).startswith("Program of 2 lines:")
    assert MLP.to_dict()["weights"] == ["Win", "Wout"]


def test_ids_are_whole_numbers() -> None:
    made = program("lookup(Ids[B], E[V, D]) -> Out[B, D]")
    assert made.arrays["Ids"].dtype.name == "int32"
    assert_same(made.parameters, V * D)


BAD_LINES = {
    "no lines": ([], "a program needs at least one line"),
    "other dims": (
        ["A[B, D] * W[D, F] -> O[B, F]", "O[B, D] * U[D, F] -> P[B, F]"],
        "line 2: O[B, D] was O[B, F] before",
    ),
    "made twice": (
        ["A[B, D] * W[D, F] -> O[B, F]", "A[B, D] * U[D, F] -> O[B, F]"],
        "line 2: O is made a second time",
    ),
    "used before made": (
        ["relu(O[B]) -> P[B]", "relu(A[B]) -> O[B]"],
        "line 1: O is used before it is made",
    ),
    "made from itself": (["relu(A[B]) -> A[B]"], "line 1: A is used before it is made"),
    "other type": (
        ["relu(A: bf16[B]) -> O[B]", "relu(O: f32[B]) -> P[B]"],
        "line 2: O is f32 but was bf16 before",
    ),
    "lost dim": (
        ["A[B, D] * W[E, F] -> O[B, F]"],
        "line 1: A[B, D] · W[E, F] -> O[B, F]: dim D is in one operand only and not in the result; "
        "sum it first, with sum(...; D)",
    ),
    "dim from nowhere": (
        ["A[B, D] * W[D, F] -> O[B, F, K]"],
        "line 1: A[B, D] · W[D, F] -> O[B, F, K]: the result's dim K is in no operand",
    ),
    "three operands": (
        ["A[B] * W[B] * U[B] -> O[B]"],
        "line 1: a product takes two arrays; write one line for each",
    ),
    "unknown function": (
        ["softmx(A[B]; B) -> O[B]"],
        "line 1: unknown function 'softmx'; did you mean softmax or shift?",
    ),
    "too many operands": (["relu(A[B], U[B]) -> O[B]"], "line 1: relu takes 1 array, not 2"),
    "too few operands": (["mul(A[B]) -> O[B]"], "line 1: mul takes 2 arrays, not 1"),
    "no dim to work along": (
        ["softmax(A[B]) -> O[B]"],
        "line 1: softmax works along a dim; name it: softmax(...; dim)",
    ),
    "elementwise along a dim": (
        ["relu(A[B]; B) -> O[B]"],
        "line 1: relu is elementwise and takes no dims after ';'",
    ),
    "wrong result": (
        ["sum(A[B, D]; D) -> O[B, D]"],
        "line 1: sum(A[B, D]; D) -> O[B, D]: the result should be [B]",
    ),
    "stray dim": (
        ["mul(A[B], U[D]) -> O[B]"],
        "line 1: mul(A[B], U[D]) -> O[B]: dim D is not in the first operand",
    ),
    "stray dim to work along": (
        ["softmax(A[B]; D) -> O[B]"],
        "line 1: softmax(A[B]; D) -> O[B]: dim D is not in the first operand",
    ),
    "lookup of one": (["lookup(Ids[B]) -> O[B]"], "line 1: lookup takes ids and a table"),
    "lookup's result": (
        ["lookup(Ids[B], W[V, D]) -> O[B]"],
        "line 1: lookup of Ids[B] in W[V, D] makes [B, D], not O[B]",
    ),
    "lookup's ids": (
        ["lookup(Words[B], W[V, D]) -> O[B, D]"],
        "line 1: lookup: Words is bf16; write Words: int32[...]",
    ),
    "lookup's table": (
        ["lookup(Ids[B], W[]) -> O[B]"],
        "line 1: lookup: the table W[] has no rows",
    ),
    "regrouping": (
        ["A[B] -> O[D]"],
        "line 1: A[B] -> O[D]: the dims do not match up; sizes (B,) against (D,)",
    ),
    "gradient's name": (
        ["relu(A[B]) -> dA[B]"],
        "dA is the name of A's gradient; rename the array",
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_refused_lines(name: str) -> None:
    lines, message = BAD_LINES[name]
    with pytest.raises(ProgramError) as caught:
        program(*lines)
    assert str(caught.value) == message


def test_refused_names() -> None:
    with pytest.raises(ProgramError, match=r"no line has an array 'Tmpp'; did you mean Tmp\?"):
        program(*LINES, fused=["Tmpp"])
    with pytest.raises(ProgramError, match="no line has an array 'Inn'"):
        program(*LINES, inputs=["Inn"])


def test_refused_notation() -> None:
    with pytest.raises(NotationError, match=r"line 1: A\[B_X, D\] is sharded; a program's lines"):
        program("A[B_X, D] * W[D, F] -> O[B, F]")
    with pytest.raises(NotationError, match="expected '->' and the result, at character 26"):
        program("A[B, D] * W[D, F] = O[B, F]".replace(" = O[B, F]", "        "))
    with pytest.raises(NotationError, match="dim 'C' is the symbol of something else"):
        program("relu(A[B, C]) -> O[B, C]")


def test_refused_sizes() -> None:
    with pytest.raises(SymbolError, match=r"size of dim b = 'B/T': a number is wanted"):
        program("A[B] -> O[b, T]", sizes={"b": "B/T"})
    with pytest.raises(SymbolError, match="size of dim B = 0: a size or rate must be above zero"):
        program("relu(A[B]) -> O[B]", sizes={"B": 0})
    with pytest.raises(NotationError, match=r"size of dim B = 2\.5: a whole number is wanted"):
        program("relu(A[B]) -> O[B]", sizes={"B": 2.5})


def test_a_regrouping_moves_no_name() -> None:
    with pytest.raises(ProgramError, match="dim B keeps its name but not its elements"):
        program("A[B, D] -> O[D, B]", sizes={"B": 4, "D": 4})


BAD_SHARDINGS = {
    "unknown array": (["Inn[B_X, D]"], ProgramError, "Inn[B_X, D]: no array 'Inn'"),
    "neither gradient nor state": (["xWin[D, F]"], ProgramError, "xWin[D, F]: no array 'xWin'"),
    "wrong dims": (["In[D, B_X]"], ProgramError, "In[D, B_X]: the dims of In are [B, D]"),
    "given twice": (["In[B_X, D]", "In[B, D]"], ProgramError, "In is given two shardings"),
    "axis twice": (
        ["In[B_X, D_X]"],
        NotationError,
        "mesh axis X is used twice in In, at character 11 of 'In[B_X, D_➤X]'",
    ),
    "axis of another name": (
        ["In[B_F, D]"],
        NotationError,
        "mesh axis 'F' of In[B_F, D] is the symbol of something else",
    ),
    "partial sums of nothing": (
        ["Out[B, D]{U_X}"],
        ShardingError,
        "Out[B, D]{U_X} holds partial sums along X, but Out[B, D] does not",
    ),
    "a gradient's partial sums of nothing": (
        ["dWin[D, F]{U_X}"],
        ShardingError,
        "dWin[D, F]{U_X} holds partial sums along X, but dWin[D, F] does not",
    ),
}


@pytest.mark.parametrize("name", BAD_SHARDINGS)
def test_refused_shardings(name: str) -> None:
    lines, kind, message = BAD_SHARDINGS[name]
    with pytest.raises(kind) as caught:
        made = MLP.shard(*lines)
        _ = made.forward, made.backward
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_refused_options_and_names() -> None:
    with pytest.raises(ProgramError, match="keep='some' is none of 'activations', 'all', 'none'"):
        MLP.shard(keep="some")
    with pytest.raises(ProgramError, match="no array 'Wins'; did you mean Win"):
        MLP.shard().sharding("Wins")


def test_an_axis_may_not_have_the_name_of_any_dim() -> None:
    named = program("A[rows, cols] * W[cols, other] -> O[rows, other]")
    with pytest.raises(NotationError, match=r"mesh axis 'other' of A.* has the name of a dim"):
        named.shard("A[rows_{other}, cols]")


class Everywhere:
    """A strategy: whatever has batch rows is sharded there."""

    def lines(self, of: object) -> tuple[str, ...]:
        return "In[B_X, D]", "Out[B_X, D]"


def test_a_strategy_stands_for_its_lines() -> None:
    assert_same(MLP.shard(Everywhere()).forward.flops, MLP.shard("In[B_X, D]").forward.flops)


def test_sharded_programs_show_themselves() -> None:
    made = MLP.shard("In[B_X, D]", "Out[B_X, D]")
    assert str(made).splitlines()[0] == "forward:"
    assert made.sharding("Tmp").short == "Tmp[B_X, F]"
    assert made.sharding("dTmp").short == "dTmp[B_X, F]"
    assert made.sharding("mWin").short == "mWin[D, F]"
    told = made.to_dict()
    assert told["shardings"]["In"] == "In[B_X, D]"
    assert [phase["phase"] for phase in told["passes"]] == ["forward", "backward", "update"]
    assert repr(made.forward).startswith("forward pass:")
    assert_same(made.forward.cost.sum("flops").expr, made.forward.flops)
    assert F in made.forward.hbm_bytes.free_symbols
    assert B in made.forward.hbm_bytes.free_symbols
