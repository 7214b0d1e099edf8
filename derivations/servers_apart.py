# %% [markdown]
# # Prefill servers and generate servers: how many of each
#
# A server that generates keeps b sequences in flight. Each step gives every one of them a token; a
# sequence stays until its answer of S_out tokens is complete, and a new prompt of S_in tokens takes
# its place. Reading that prompt takes t_prefill seconds of somebody's time. Whose?

# %%
from sympy import Integer, cancel

from symscale import *
from symscale.studies.serving.transfer import transfer
from symscale.studies.serving.words import N_GENERATE, S_IN, S_OUT, T_PREFILL, T_STEP

# %% [markdown]
# First what a step does to the cache. Prompts and generated tokens enter it; whole sequences leave.
# The cache neither grows nor falls where both are equal, which says how many sequences finish.

# %%
flows = batching()
print("enter in a step:", flows.entering)
print("leave in a step:", flows.leaving)
print(flows.balance.derivation)
print()
print("finish in a step:", flows.finishing)
print("evicted in a step:", flows.evicted)

# %% [markdown]
# If the same server reads the prompts, generation stands still meanwhile: a step is followed, on
# average, by the prefill of as many prompts as have finished.

# %%
print("from step to step:", flows.cycle)
print("requests/s:", flows.requests)
print("tokens wait, times as long:", flows.slowdown)
print("in the worst case:", flows.longest_gap, "s")

# %% [markdown]
# If other servers read them, two rates must agree.

# %%
apart = disaggregate()
print("read, requests/s:    ", apart.prompts)
print("finished, requests/s:", apart.answers)
print("ratio:", apart.ratio)

# %% [markdown]
# Does it pay? Count the requests of one server of the mixture, of which `ratio` read for each that
# generates, beside those of a server that does both. They are the same: what is gained is not
# throughput but steps of even length.

# %%
per_server = cancel((apart.answers / (1 + apart.ratio)).subs(N_GENERATE, 1))
print("apart:    ", per_server)
print("together: ", cancel(flows.requests))

# %% [markdown]
# The cache of a prompt must follow it to the server that answers. Sent layer by layer it hides
# behind the prefill from a bandwidth that does not depend on how long the prompt is, as long as the
# prefill is in proportion to it.

# %%
sent = transfer()
print(sent.hides)
rate = symbols.quantity(
    "v_prefill", r"v_{\mathrm{prefill}}", "prompt tokens read a second", "token/s"
)
in_proportion = transfer(prefill=S_IN / rate).hides
print(in_proportion)

# %% [markdown]
# Numbers. LLaMA 3 70B on TPU v5e: a prompt of 8192 tokens takes 0.91 s on 16 chips at 40 % of their
# peak, a step of 32 sequences 19 ms, an answer is 512 tokens. Three servers read for one that
# generates. And a fleet that published its day: 608e9 tokens in, 168e9 out, 73.7e3 tokens a second
# read by a node and 14.8e3 generated; it reports 226.75 nodes on average.

# %%
book = apart.at(b=32, S_out=512, t_prefill=0.91, t_step=0.019)
print("LLaMA 3 70B:", book.ratio)
print("of 8 servers:", book.split(8))

share = 168 / 608
fleet = apart.at(S_in=1000, S_out=1000 * share, b=1, t_prefill=1000 / 73.7e3, t_step=1 / 14.8e3)
nodes = fleet.servers(608e9 / 86400 / 1000)
print("the fleet's nodes:", nodes, "together", sum(nodes))

# %% [markdown]
# The facts of this page.

# %%
b = symbols.b
assert flows.finishing == b / S_OUT
assert cancel(flows.evicted - b * (S_IN + S_OUT) / S_OUT) == 0
assert cancel(apart.ratio - b * T_PREFILL / (S_OUT * T_STEP)) == 0
assert cancel(per_server - flows.requests) == 0
assert cancel(flows.slowdown - (1 + apart.ratio)) == 0
assert S_IN not in in_proportion.threshold.free_symbols
assert abs(book.ratio - 2.993) < 1e-3
assert book.split(8) == (6, 2)
assert abs(sum(nodes) - 226.75) < 0.5
assert flows.evicted.subs({b: 32, S_IN: 8192, S_OUT: 4096}) == Integer(96)
