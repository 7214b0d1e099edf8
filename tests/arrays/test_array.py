"""Sharded arrays, meshes and element types."""

from __future__ import annotations

import pytest
from sympy import Expr, Rational

from symscale.algebra.errors import NotationError, ShardingError, SymbolError
from symscale.algebra.symbols import B, D, F, X, Y, Z, axis, n, symbol
from symscale.arrays.array import Array, array
from symscale.arrays.dtype import DTYPES, dtype, product_dtype
from symscale.arrays.mesh import Mesh
from tests.algebra.equality import assert_same

SIZES = {
    "f32": 4, "bf16": 2, "f16": 2, "fp8": 1, "fp4": Rational(1, 2),
    "int32": 4, "int8": 1, "int4": Rational(1, 2), "bool": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_bytes_of_types(name: str) -> None:
    assert dtype(name).bytes == SIZES[name]
    assert_same(array(f"A: {name}[B, D_X]").bytes, SIZES[name] * B * D / X)


def test_types() -> None:
    assert set(SIZES) == set(DTYPES)
    assert dtype(dtype("bf16")) is dtype("bfloat16")
    assert product_dtype(dtype("int8"), dtype("fp8")).name == "fp8"
    assert product_dtype(dtype("int8"), dtype("bf16")).name == "bf16"
    assert product_dtype(dtype("int4"), dtype("int8")).name == "int8"


def test_shapes() -> None:
    made = array("In: int8[B_XZ, d_model_Y, F]")
    d = symbol("d_model")
    assert made.global_shape == (B, d, F)
    assert made.local_shape == (B / (X * Z), d / Y, F)
    assert_same(made.elements, B * d * F / (X * Y * Z))
    assert made.labels == ("B", "d_model", "F")
    assert made.axes == ("X", "Z", "Y")
    assert made.unsharded.bytes == made.global_bytes
    assert made.dim("F").local == F


def test_sizes_other_than_the_name() -> None:
    made = array("A[b, 128, K_Y]", sizes={"b": B / 4, "K": 8})
    assert made.global_shape == (B / 4, 128, 8)
    assert made.local_shape == (B / 4, 128, 8 / Y)


TOTALS: dict[tuple[str, Mesh], Expr] = {
    ("W[D, F]", Mesh("X", "Y")): 2 * D * F * X * Y,
    ("W[D, F_Y]", Mesh("X", "Y")): 2 * D * F * X,
    ("W[D_X, F_Y]", Mesh("X", "Y")): 2 * D * F,
    ("W[D_X, F_Y]", Mesh("X", "Y", "Z")): 2 * D * F * Z,
    ("W[D, F_Y]", Mesh(X=4, Y=2)): 8 * D * F,
    ("W[D, F]{U_X}", Mesh("X", "Y")): 2 * D * F * X * Y,
}


@pytest.mark.parametrize(("text", "mesh"), TOTALS, ids=str)
def test_total_bytes_count_every_replica(text: str, mesh: Mesh) -> None:
    assert_same(array(text).total_bytes(mesh), TOTALS[text, mesh])


def test_an_axis_that_the_mesh_lacks() -> None:
    with pytest.raises(
        ShardingError, match=r"W\[D_X\] uses mesh axis X, which Mesh\(Y=Y\) does not"
    ):
        array("W[D_X]").total_bytes(Mesh("Y"))


def test_axes_must_divide_their_dim() -> None:
    made = array("In[B_XY, D]")
    made.check({B: 16, X: 4, Y: 2})
    made.check({X: 4, Y: 2})
    with pytest.raises(ShardingError) as caught:
        made.check({B: 12, X: 4, Y: 2})
    assert str(caught.value) == (
        "mesh axis XY = 8 does not divide B = 12 of In[B_XY, D]; the next fewer that does is 6"
    )
    with pytest.raises(ShardingError, match=r"mesh axis \{data,Y\} = 6 does not divide D = 8"):
        array("In[D_{data,Y}]").check({D: 8, axis("data"): 3, Y: 2})
    with pytest.raises(ShardingError, match="does not divide 10 = 10 of In"):
        array("In[10_X]").check({X: 4})


def test_placing_elsewhere() -> None:
    made = array("In[B_X, D]{U_Y}")
    assert made.sharding == {"B": ("X",), "D": ()}
    moved = made.placed({"D": ("Y", "X")})
    assert moved.short == "In[B, D_YX]"
    assert moved.unreduced == ()
    with pytest.raises(ShardingError, match=r"In\[B, D_YX\] has no dim F; its dims: B, D"):
        moved.dim("F")


REFUSED = {
    "In[C, D]": "dim 'C' is the symbol of something else (matrix rate of one chip in bf16, dense); "
    "rename the dim",
    "In[X, D]": "dim 'X' is the symbol of something else (size of mesh axis X); rename the dim",
    "In[0]": "dim '0': a size must be above zero",
    "In[D_C]": "mesh axis 'C' of In[D_C] is the symbol of something else "
    "(matrix rate of one chip in bf16, dense); rename the axis",
    "In[D_X]{U_B}": "mesh axis 'B' of In[D_X]{U_B} is the symbol of something else "
    "(batch, in tokens); rename the axis",
    "In[ab_{ab}]": "mesh axis 'ab' of In[ab_{ab}] has the name of a dim; rename one",
}


@pytest.mark.parametrize("text", REFUSED)
def test_names_stand_for_one_thing(text: str) -> None:
    with pytest.raises(NotationError) as caught:
        array(text)
    assert str(caught.value) == REFUSED[text]


def test_a_new_name_may_be_a_dim_here_and_an_axis_there() -> None:
    assert array("A[pipe]").bytes == 2 * symbol("pipe")
    assert array("A[D_{pipe}]").bytes == 2 * D / axis("pipe")


def test_showing() -> None:
    made = array("KV: int8[B_X, d_head]{U_Y}")
    assert str(made) == "KV: int8[B_X, d_head]{U_Y}"
    assert str(array("In[B]")) == "In[B]"
    assert repr(array("In[B]")) == "array('In: bf16[B]')"
    assert made._repr_latex_() == r"$\mathrm{KV}[B_{X}, d\_head]\{U_{Y}\}$"
    assert made.to_dict()["local_shape"] == ["B/X", "d_head"]
    assert isinstance(hash(made), int)
    assert isinstance(made, Array)


def test_meshes() -> None:
    mesh = Mesh("X", Y=2, data=n)
    assert list(mesh) == ["X", "Y", "data"]
    assert_same(mesh.devices, 2 * X * n)
    assert repr(mesh) == "Mesh(X=X, Y=2, data=n)"
    assert mesh.to_dict() == {"X": "X", "Y": 2, "data": "n"}
    assert mesh == Mesh("X", Y=2, data=n)
    assert hash(mesh) == hash(Mesh("X", Y=2, data=n))
    assert Mesh().devices == 1
    assert "Z" not in mesh
    assert Z not in mesh.devices.free_symbols


def test_refused_meshes() -> None:
    with pytest.raises(ShardingError, match="mesh axes X, X: a name occurs twice"):
        Mesh("X", "X")
    with pytest.raises(ShardingError, match=r"mesh axis X = 2\.5: a whole number is wanted"):
        Mesh(X=2.5)
    with pytest.raises(ShardingError, match="mesh axis 'C' is the symbol of something else"):
        Mesh("C")
    for wrong in (0, -2, "4", float("nan")):
        with pytest.raises(SymbolError, match="mesh axis X = "):
            Mesh(X=wrong)
