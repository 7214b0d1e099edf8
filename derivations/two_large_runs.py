# %% [markdown]
# # Two large runs: what the algebra says of them, beside what was measured
#
# Llama 3 405B was trained on 16,384 H100 and DeepSeek-V3 on 2,048 H800. Their papers say how they
# were split and how fast they went. A lower bound on a step's time has to lie below what was
# measured, and the memory has to fit.

# %%
from symscale import *

# %% [markdown]
# ## Llama 3 405B
#
# Tensor parallelism over 8 with the sequence split between blocks, 16 stages, 128 data ranks that
# split states and gradients; 16 Mi tokens a step in sequences of 8 Ki, so 16 microbatches a rank.
# One layer less lies on the first stage and one on the last, in place of embedding and head; every
# layer is a chunk of its own. Source: arXiv:2407.21783, sections 3.3.2 and 3.3.3, table 4.

# %%
pipe = schedule("interleaved")
print(pipe.derivation)
print("bubble of the ideal time:", pipe.bubble_of_ideal, " of the total:", pipe.bubble_of_total)

# %%
split = strategy(
    "zero2+tp+sp+pp", schedule="interleaved", chunks=8, microbatches=16, ends=(1, 1),
    gradients="f32", optimizer="adam+master",
)  # fmt: skip
cluster = chip("h100").override(pod=16384)
step = training("llama-3-405b", split, keep="none")
llama = step.at(cluster, B=2**24, T=8192, P=16, X=128, Y=8, chips=16384)
print(llama)

# %% [markdown]
# 400 TFLOP/s a chip were measured: 41 % of the peak. Model FLOPs over the bound's time give what no
# run with this split can pass.

# %%
sizes = model("llama-3-405b")
flops = float(sizes.flops_per_token(T, training=True).subs({**sizes, T: 8192})) * 2**24
for name, seconds in llama.times.items():
    rate = flops / seconds / llama.chips / 1e12
    print(f"overlap {name:<9} {seconds:5.2f} s a step, {rate:4.0f} TFLOP/s a chip")
measured = flops / (400e12 * llama.chips)
print(f"measured          {measured:5.2f} s a step,  400 TFLOP/s a chip")

# %% [markdown]
# With one chunk a stage, sixteen microbatches on sixteen stages, nearly half of every step would be
# bubble:

# %%
plain = training("llama-3-405b", strategy("zero2+tp+sp+pp", microbatches=16, ends=(1, 1))).at(
    cluster, B=2**24, T=8192, P=16, X=128, Y=8
)
print(f"bubble {plain.bubble:.1%} instead of {llama.bubble:.1%}")

# %% [markdown]
# ## DeepSeek-V3
#
# 256 experts over 64 ranks within 128 data ranks, 16 stages under DualPipe, ZeRO-1; 15,360
# sequences of 4,096 tokens. Source: arXiv:2412.19437, section 3; arXiv:2505.09343, table 4 (19.93 s
# a step, 38.94 % of the bf16 peak, a causal mask counted half). The H800's HBM is that of an H100.

# %%
servers = chip("h800").override(pod=2048, W_hbm=3.35e12)
numbers = {"B": 15360 * 4096, "T": 4096, "P": 16, "X": 2, "Z": 64}


def deepseek(**options):
    chosen = strategy(
        "zero1+ep+pp", schedule="dualpipe", microbatches=120, gradients="f32",
        optimizer="adam-bf16+master", **options,
    )  # fmt: skip
    return training("deepseek-v3", chosen, keep="none").at(servers, **numbers)


fast = deepseek()
print(f"nothing again: {fast.time:.2f} s a step, {fast.bottleneck}; fits: {fast.fits}")
small = deepseek(remat="block")
print(f"blocks again:  {small.time:.2f} s a step, {small.bottleneck}; fits: {small.fits}")
print("measured:      19.93 s a step")

# %% [markdown]
# The exchange with the experts sets the pace, not arithmetic: in bf16 it takes more than all
# products. The run sent tokens in fp8, to at most four nodes each, and kept activations in fp8
# instead of computing whole blocks again.

# %%
for name, seconds in fast.busy.items():
    print(f"{name:<8} {seconds:6.2f} s")

# %% [markdown]
# The facts of this page.

# %%
assert llama.fits
assert 400 < flops / llama.time / llama.chips / 1e12 < 800
assert llama.times["full"] < measured
assert abs(llama.bubble - 15 / (8 * 16 + 15)) < 0.02
assert abs(plain.bubble - 15 / 31) < 0.02
assert fast.time < 19.93 < fast.times["none"]
assert small.fits
assert not fast.fits
assert fast.busy["dcn"] > fast.busy["math"]
