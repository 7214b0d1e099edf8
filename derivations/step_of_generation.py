# %% [markdown]
# # A step of generation
#
# One query a sequence, over a cache of S keys: the layer that trains is the layer that serves, with
# T = 1 and its keys and values read instead of made. What does a step cost, and what binds it?

# %%
from itertools import pairwise

from symscale import *
from symscale.studies.inference_difference import difference
from symscale.studies.inference_fit import evenly
from symscale.studies.inference_walls import walls

study = inference("llama-3-70b", weights="int8", kv="int8")
layer, sharded = study.sharded[0]
print(sharded.forward)

# %% [markdown]
# Beyond the 8 key/value heads the cache is repeated, or cut along the sequences in flight: the
# partitioner then exchanges queries and results, KV[B_Z, S, K_Y, H].

# %%
by_batch = inference("llama-3-70b", cache="batch").sharded[0][1].forward
exchanged = [move for move in by_batch.collectives if move.name == "AllToAll_Z"]
for move in exchanged:
    print(move.name, move.before.short, "->", move.after.short, ":", move.volume, "bytes")

# %% [markdown]
# All weights are read once a step, whatever the batch; the products with them take longer from the
# critical batch on. Tensor parallelism divides both, and leaves the exchange of sums as it is: from
# so many ways on a step waits for links.

# %%
found = walls(study.formulas)
print(found)
print()
print(found.critical_batch.derivation)

# %% [markdown]
# Weights and cache, cut evenly, need so many chips. On a real slice of TPU v5e:

# %%
print(evenly(study, 8192))
result = study.at(chip="tpu-v5e", chips=8, batch=32, context=8192)
print(result)

# %% [markdown]
# The textbook adds up all weights, all arithmetic and all of the cache; kernel by kernel the step
# is a little shorter, since of the embedding only a row a token is read.

# %%
print(difference(result))

# %% [markdown]
# More sequences in flight give more tokens a second, each of them later.

# %%
steps = [result.again(batch=count) for count in (1, 8, 32, 42)]
for one in steps:
    print(f"{one.batch:3}  {one.step_time * 1e3:6.2f} ms  {one.tokens_per_second:7.0f} tokens/s")

# %% [markdown]
# What this page claims, asserted.

# %%
assert [move.volume for move in exchanged] == [2 * B * H * N / (Y * Z)] * 2
assert found.critical_batch.threshold == C / (2 * W_hbm)
assert result.fits
assert result.kv_bytes == 42_949_672_960
assert steps[-1].fits
assert not result.again(batch=43).fits
for before, after in pairwise(steps):
    assert before.step_time < after.step_time
    assert before.tokens_per_second < after.tokens_per_second
assert difference(result).agree
