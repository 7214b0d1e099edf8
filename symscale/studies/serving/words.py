"""The symbols of serving: what a request asks for, what a step takes, how servers are counted.

``b`` is the number of sequences in flight on a server and ``S`` their context, as elsewhere; a
prompt of ``S_in`` tokens is answered with ``S_out`` tokens.
"""

from __future__ import annotations

from sympy import Symbol

from symscale.algebra.symbols import quantity

S_IN: Symbol = quantity("S_in", r"S_{\mathrm{in}}", "tokens of a prompt", "token")
S_OUT: Symbol = quantity("S_out", r"S_{\mathrm{out}}", "tokens generated for a prompt", "token")
T_PREFILL: Symbol = quantity(
    "t_prefill", r"t_{\mathrm{prefill}}", "prefill of one prompt on a server", "s"
)
T_STEP: Symbol = quantity("t_step", r"t_{\mathrm{step}}", "one step of generation", "s")
N_PREFILL: Symbol = quantity(
    "n_prefill", r"n_{\mathrm{prefill}}", "servers that read prompts", "server"
)
N_GENERATE: Symbol = quantity(
    "n_generate", r"n_{\mathrm{generate}}", "servers that generate", "server"
)
RATE: Symbol = quantity("lambda_r", r"\lambda", "requests that arrive", "1/s")
DONE: Symbol = quantity("x_done", r"x", "sequences that finish in a step", "1")
CHUNK: Symbol = quantity("S_chunk", r"S_{\mathrm{chunk}}", "prompt tokens in one step", "token")
PREFIX: Symbol = quantity("S_prefix", r"S_{\mathrm{prefix}}", "tokens that prompts share", "token")
REUSES: Symbol = quantity("m_reuse", r"m", "requests that share a prefix", "1")
KV: Symbol = quantity(
    "kv_bytes", r"\mathrm{kv}", "bytes cached for a token, on a server", "byte/token"
)
W_LINK: Symbol = quantity(
    "W_link", r"W_{\mathrm{link}}", "bandwidth from a server to another, one way", "byte/s"
)
ALPHA: Symbol = quantity("alpha", r"\alpha", "chance that a drafted token is accepted")
GAMMA: Symbol = quantity("gamma", r"\gamma", "tokens drafted in a round", "token")
DRAFT: Symbol = quantity("c_draft", r"c", "step of the draft over a step of the model, in time")
DRAFT_OPS: Symbol = quantity(
    "c_ops", r"\hat{c}", "arithmetic of the draft for a token over the model's"
)
KEPT: Symbol = quantity(
    "n_kept", r"n_{\mathrm{kept}}", "drafted tokens accepted in a round", "token"
)
LOST: Symbol = quantity(
    "n_lost", r"n_{\mathrm{lost}}", "drafted tokens refused in a round", "token"
)
T_BETWEEN: Symbol = quantity(
    "t_between", r"t_{\mathrm{between}}", "between two requests for one prefix", "s"
)
BUFFER: Symbol = quantity(
    "M_buffer", r"M_{\mathrm{buffer}}", "bytes of a chip that hold no weights and no cache", "byte"
)
REPLICAS: Symbol = quantity("n_replicas", "r", "replicas of a server", "1")
DEMAND: Symbol = quantity("v_tokens", r"v", "tokens a second that are wanted", "token/s")
LIMIT: Symbol = quantity("t_limit", r"t_{\mathrm{limit}}", "most seconds between two tokens", "s")
