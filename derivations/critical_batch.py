# %% [markdown]
# # The critical batch of a matmul
#
# A matrix product of activations `A[B, D]` with weights `W[D, F]` does work in proportion to the
# batch B, but has to read the weights however small B is. From which batch on does arithmetic take
# longer than memory? Below it a chip waits for its HBM; above it more tokens cost more time.

# %%
from symscale import *

mm = einsum("A[B, D] * W[D, F] -> Out[B, F]")
print("FLOPs:    ", mm.flops)
print("bytes:    ", mm.bytes)
print("intensity:", mm.intensity)

# %% [markdown]
# Where do the two times cross, as B grows? The answer comes with its condition: a chip whose ridge
# lies above what D and F can offer never gets there.

# %%
wall = crossover(mm.time.math, mm.time.hbm, B)
print(wall)
print()
print(wall.derivation)

# %% [markdown]
# With a model much wider than the ridge C/W_hbm, the exact wall is one term times a factor near
# one.

# %%
order = leading(wall.threshold, small=[C / (D * W_hbm), C / (F * W_hbm)])
print("to leading order:", order.term, "   exact factor:", order.factor)

# %% [markdown]
# Two chips, and what int8 does: halved bytes alone halve the wall; if arithmetic doubles its rate
# as well, the two cancel.

# %%
v5e, h100 = chip("tpu-v5e", edition="book-2025"), chip("h100")
for one in (v5e, h100):
    print(f"{one.title:12} B > {float(order.term.subs(one)):.1f}")

mixed = einsum("A: bf16[B, D] * W: int8[D, F] -> Out: bf16[B, F]")
whole = einsum("A: int8[B, D] * W: int8[D, F] -> Out: int8[B, F]")
small = [C / (D * W_hbm), C / (F * W_hbm)]
mixed_wall = leading(crossover(mixed.time.math, mixed.time.hbm, B).threshold, small=small).term
small = [C_int8 / (D * W_hbm), C_int8 / (F * W_hbm)]
whole_wall = leading(crossover(whole.time.math, whole.time.hbm, B).threshold, small=small).term
print("int8 weights, bf16 arithmetic:", mixed_wall, "=", float(mixed_wall.subs(v5e)))
print("all int8:                     ", whole_wall, "=", float(whole_wall.subs(v5e)))

# %% [markdown]
# The facts of this page.

# %%
assert mm.flops == 2 * B * D * F
assert (mm.intensity - B * D * F / (B * D + D * F + B * F)).cancel() == 0
assert (wall.threshold - C * D * F / (D * F * W_hbm - C * D - C * F)).cancel() == 0
assert order.term == C / W_hbm
assert (order.term * order.factor - wall.threshold).cancel() == 0
assert abs(float(order.term.subs(v5e)) - 243.2) < 0.05
assert abs(float(order.term.subs(h100)) - 295.2) < 0.05
assert mixed_wall == C / (2 * W_hbm)
assert abs(float(whole_wall.subs(v5e)) - 243.2) < 0.05
