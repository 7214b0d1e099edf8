# %% [markdown]
# # How to split chips between FSDP and tensor parallelism
#
# More chips on the data axis X make the activations that Y moves smaller; more on Y make the
# weights that X moves smaller. With n chips in all, which split communicates least, and how small
# can the batch become before even the best split is not enough?

# %%
from symscale import *

layer = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
forward = layer.shard(strategy("fsdp+tp")).forward
print("communication, axes one after another:", forward.time.comms)

# %% [markdown]
# The sum of two monomials under X·Y = n is a geometric program with as many terms as it has
# equations to fix them, so the optimum has a closed form and a proof.

# %%
best = minimise(forward.time.comms, over=(X, Y), subject_to=Eq(X * Y, n))
print(best)
print()
print(best.derivation)

# %% [markdown]
# Arithmetic against the best that communication can do:

# %%
wall = crossover(forward.time.math, best.value, B)
print(wall)
print()
print(wall.derivation)

# %% [markdown]
# If the links of both axes work at once, only the slower counts. The split is the same and the
# wall four times lower: a choice of assumption, not of mathematics.

# %%
overlapped = minimise(forward.time.comms_overlapped, over=(X, Y), subject_to=Eq(X * Y, n))
lower_wall = crossover(forward.time.math, overlapped.value, B)
print(overlapped)
print(lower_wall)

# %% [markdown]
# LLaMA 3 70B, 4 Mi tokens: a pod of v5p with two of its three torus axes under X, and one of v5e
# with one each.

# %%
llama = model("llama-3-70b")
for name, chips, links in (("tpu-v5p", 8960, {M_X: 2, M_Y: 1}), ("tpu-v5e", 256, {M_X: 1, M_Y: 1})):
    numbers = {**chip(name), **llama, **links, B: 2**22, n: chips}
    print(
        f"{name}: X = {float(best[X].subs(numbers)):.1f}, "
        f"B/n > {float((wall.threshold / n).subs(numbers)):.1f} summed, "
        f"{float((lower_wall.threshold / n).subs(numbers)):.1f} overlapped; "
        f"here {2**22 / chips:.1f}"
    )

# %% [markdown]
# The facts of this page.

# %%
assert (best[X] ** 2 - B * n * M_X / (F * M_Y)).cancel() == 0
assert best.certificate == "geometric program, degree of difficulty 0"
assert (wall.threshold / n - 4 * (C / W_ici) ** 2 / (M_X * M_Y * F)).cancel() == 0
assert (lower_wall.threshold / n - (C / W_ici) ** 2 / (M_X * M_Y * F)).cancel() == 0
assert overlapped[X] == best[X]
v5p = {**chip("tpu-v5p"), **llama, M_X: 2, M_Y: 1, B: 2**22, n: 8960}
assert round(float(best[X].subs(v5p))) == 1619
assert abs(float((wall.threshold / n).subs(v5p)) - 453.578404) < 1e-6
assert abs(float((lower_wall.threshold / n).subs(v5p)) - 113.394601) < 1e-6
