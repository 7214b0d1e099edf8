# %% [markdown]
# # Speculative decoding, and when a draft pays
#
# A step of generation waits for the weights, whatever is in the batch; checking a few guessed
# tokens in the same step costs next to nothing. So let a small model guess gamma tokens, and let
# the large one check them all at once. Every token of the guess is right with chance alpha; the
# first wrong one ends the round, and the check itself supplies one right token more.

# %%
from sympy import Integer, Rational, cancel

from symscale import *
from symscale.studies.serving.acceptance import expected_tokens
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.system import serving_system
from symscale.studies.serving.words import ALPHA, DRAFT, GAMMA, KEPT, LOST

tokens, steps = expected_tokens()
print(steps)

# %% [markdown]
# A round takes gamma steps of the draft, each c_draft of a step, and one step of the model. Where
# that takes as long as any other (memory-bound), the speed-up is

# %%
bound = speculative()
print(bound.speedup)
print("arithmetic grows by", bound.operations)

# %% [markdown]
# How many tokens to guess? One more adds alpha^(gamma + 1) tokens to a round. What it gains over
# what it costs, both sides cleared of denominators, falls with every further token, so that the
# first count which does not gain is the last that could: there is one best gamma.

# %%
after = bound.speedup.subs(GAMMA, GAMMA + 1)
added = tokens.subs(GAMMA, GAMMA + 1) - tokens
print("one more adds:", cancel(added))
gain = added * (DRAFT * GAMMA + 1) - DRAFT * tokens
change = cancel(gain.subs(GAMMA, GAMMA + 1) - gain)
print("the gain changes by:", change.factor())
for alpha, cost in ((0.6, 0.05), (0.8, 0.05), (0.9, 0.05), (0.8, 0.2)):
    best = bound.best_gamma(alpha=alpha, c_draft=cost)
    print(f"alpha {alpha}, c {cost}: gamma {best.gamma}, {best.speedup:.2f} times as fast")

# %% [markdown]
# A large batch is another matter. Checking gamma + 1 tokens of every sequence is gamma + 1 times
# the arithmetic, and once a step waits for that, the draft has bought nothing. With a free draft,
# in tokens that an average round keeps and loses:

# %%
step = ServerStep(2 * B / C, 2 / W_hbm)  # for each parameter: two FLOPs a token, two bytes
free = speculative(step, draft=0)
wall = free.stops_paying()
print(wall)
critical = crossover(step.math, step.weights, B).threshold
print("of the critical batch:", cancel(wall.threshold / critical))

# %% [markdown]
# So it pays up to the critical batch times the share of checked tokens that are kept. For a chip:
# four guesses of which each is right with chance 0.8.

# %%
v5e = chip("tpu-v5e")
numbers = free.stops_paying(v5e, alpha=0.8, gamma=4)
print("TPU v5e: b <=", float(numbers.threshold), "of", float(critical.subs(v5e)))

# %% [markdown]
# Unless contexts are long: a round reads the cache once for all its tokens, and where that reading
# is most of a step, guessing pays at any batch.

# %%
llama = inference("llama-3-70b", weights="int8", kv="int8")
for context in (512, 4096, 8192):
    for batch in (16, 128, 512):
        server = llama.at(v5e, chips=16, batch=batch, context=context)
        best = serving_system(server, prompt=256, answer=256, alpha=0.8).best_draft
        print(f"{context} tokens, {batch} sequences: gamma {best.gamma}, {best.speedup:.2f}")

# %% [markdown]
# The facts of this page.

# %%
assert cancel(tokens - (1 - ALPHA ** (GAMMA + 1)) / (1 - ALPHA)) == 0
brute = sum(Rational(4, 5) ** i for i in range(5))
assert tokens.subs({ALPHA: Rational(4, 5), GAMMA: 4}) == brute
assert cancel(added - ALPHA ** (GAMMA + 1)) == 0
for alpha, count, cost in ((Rational(1, 2), 3, Rational(1, 10)), (Rational(9, 10), 8, Integer(1))):
    known = {ALPHA: alpha, GAMMA: count, DRAFT: cost}
    assert change.subs(known) < 0
    assert (after - bound.speedup).subs(known) * gain.subs(known) >= 0
assert cancel(wall.threshold - critical * (1 + KEPT) / (1 + KEPT + LOST)) == 0
assert cancel(numbers.threshold - (critical * brute / 5).subs(v5e)) == 0
assert abs(bound.at(alpha=0.8, gamma=5, c_draft=Rational(1, 50)).speedup - 3.35) < 0.01
