# %% [markdown]
# # What each parallelism strategy communicates
#
# A strategy is nothing but a sharding. Write a layer of two matmuls once, unsharded; assign mesh
# axes to dims; and the collectives follow: the partitioner inserts them, and the backward pass is
# every product transposed and partitioned again.

# %%
from symscale import *

layer = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
print(layer)

# %% [markdown]
# The mixed strategy in full: weights split over X along D and over Y along F, activations over X
# along the batch and over Y along D.

# %%
mixed = layer.shard(strategy("fsdp+tp"))
print(mixed)

# %% [markdown]
# All strategies, the bytes that enter each device's collectives.

# %%
print(strategies())

# %% [markdown]
# The tensor-parallel backward pass finds the gathered `In` that the forward pass left; if it is
# gathered again (as rematerialisation would), one more gather is due.

# %%
tensor = layer.shard(strategy("tp"))
again = layer.shard(strategy("tp"), keep="none")
print("kept:          ", dict(tensor.backward.volume()))
print("gathered again:", dict(again.backward.volume()))

# %% [markdown]
# On two chips: seconds of communication of a layer's forward pass, 2 Mi tokens on 64 × 4 devices.

# %%
numbers = {B: 2**21, D: 8192, F: 28672, X: 64, Y: 4, M_X: 2, M_Y: 1}
for name in ("tpu-v5p", "tpu-v4p"):
    rates = chip(name)
    spent = {
        str(axis): float(t.subs(numbers).subs(rates))
        for axis, t in mixed.forward.time.by_axis.items()
    }
    print(f"{rates.title:10}", {axis: f"{1e3 * t:.2f} ms" for axis, t in spent.items()})

# %% [markdown]
# The facts of this page.

# %%
expected = {
    "dp": ({}, {X: 8 * D * F}),
    "fsdp": ({X: 4 * D * F}, {X: 8 * D * F}),
    "tp": ({Y: 4 * B * D}, {Y: 4 * B * D}),
    "tp+sp": ({Y: 4 * B * D}, {Y: 4 * B * D}),
    "fsdp+tp": ({Y: 4 * B * D / X, X: 4 * D * F / Y}, {Y: 4 * B * D / X, X: 8 * D * F / Y}),
    "2d": ({Y: 4 * B * D / X, X: 4 * B * F / Y}, {Y: 4 * B * D / X, X: 4 * B * F / Y}),
}
for name, (forward, backward) in expected.items():
    sharded = layer.shard(strategy(name))
    assert dict(sharded.forward.volume()) == forward, name
    assert dict(sharded.backward.volume()) == backward, name
assert dict(layer.shard(strategy("zero1")).update.volume()) == {X: 8 * D * F}
assert again.backward.volume()[Y] - tensor.backward.volume()[Y] == 2 * B * D
assert mixed.forward.flops == 4 * B * D * F / (X * Y)
