# %% [markdown]
# # When attention outgrows the MLP
#
# A token's matmuls with weights cost the same however long the sequence is; its scores against all
# keys grow with it. At which length do the scores cost as much as the MLP, the projections, or all
# the rest of the layer? The answer is read off the decoder's program, not typed in.

# %%
from symscale import *
from symscale.studies.attention import attention_passes

llama = model("llama-3-70b")
print(llama.programs.layer)

# %%
against_mlp = attention_passes(llama, "mlp")
print("scores, FLOPs a token and layer:", against_mlp.scores)
print("MLP,    FLOPs a token and layer:", against_mlp.other)
print()
print(against_mlp.answer.derivation)

# %% [markdown]
# Against the projections and against everything else in the layer; and with a causal kernel that
# computes half of the scores.

# %%
walls = {}
for rival in ("mlp", "projections", "layer"):
    for causal in (False, True):
        walls[rival, causal] = attention_passes(llama, rival, causal).answer.threshold
        print(
            f"{rival:12} causal={causal!s:6}",
            walls[rival, causal],
            "=",
            walls[rival, causal].subs(llama),
        )

# %% [markdown]
# The textbook's rules of thumb are special cases: as many key/value heads as query heads, heads
# together as wide as the model, F = 4D, and an ungated MLP would have 2 instead of 3 matrices.

# %%
plain = {K: N, F: 4 * D}
rest = walls["layer", False].subs(plain).subs(H, D / N).cancel()
projections = walls["projections", False].subs(plain).subs(H, D / N).cancel()
print("against the rest of the layer: T =", rest)
print("against the projections:       T =", projections)

# %% [markdown]
# In seconds, on two chips: one layer's scores and MLP for a million tokens at the context of the
# model.

# %%
for name in ("tpu-v5p", "h100"):
    rate = chip(name)[C]
    scores = (against_mlp.scores * 10**6 / rate).subs(llama).subs(T, llama.context)
    mlp = (against_mlp.other * 10**6 / rate).subs(llama)
    print(f"{name}: scores {float(scores):.2f} s, MLP {float(mlp):.2f} s")

# %% [markdown]
# The facts of this page.

# %%
assert rest == 8 * D
assert projections == 2 * D
assert (
    walls["projections", False] == D * (1 + K / N)
    or (walls["projections", False] - D * (1 + K / N)).cancel() == 0
)
assert walls["mlp", True] == 2 * walls["mlp", False]
assert walls["mlp", False].subs(llama) == 43008
assert walls["layer", False].subs(llama) == 52224
