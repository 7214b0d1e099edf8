"""Families that differ from the usual decoder by switches alone.

Source: the modelling code of each family at https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from symscale.models.families import moe, windows
from symscale.models.families.dense import Dense

_WINDOW = windows.every("sliding_attention")
_LLAMA = Dense(biases="qkvo", bias_key="attention_bias", mlp_biases="gio", mlp_bias_key="mlp_bias")
_QWEN3 = Dense(
    biases="qkvo",
    bias_key="attention_bias",
    qk_norm="head",
    rule=windows.from_max_window_layers,
)
_GPT2 = Dense(
    norm="layernorm",
    gated=False,
    act="activation_function",
    biases="qkvo",
    mlp_biases="io",
    kv_key=None,
    ff_factor=4,
    positions=0,
)
_GPTJ = Dense(
    plan="parallel",
    norm="layernorm",
    gated=False,
    act="activation_function",
    mlp_biases="io",
    kv_key=None,
    ff_factor=4,
    head_bias=True,
)
_GPT_NEOX = Dense(
    plan="parallel2",
    norm="layernorm",
    gated=False,
    biases="qkvo",
    bias_key="attention_bias",
    mlp_biases="io",
    kv_key=None,
)
_OLMO = Dense(biases="qkvo", bias_key="attention_bias", norm="none")
_GEMMA = Dense(biases="qkvo", bias_key="attention_bias", act="hidden_activation")

#: One row a family.
PLAIN: Mapping[str, Dense] = MappingProxyType(
    {
        "llama": _LLAMA,
        "granite": _LLAMA,
        "smollm3": _LLAMA,
        "helium": _LLAMA,
        "mistral": Dense(rule=_WINDOW),
        "ministral3": Dense(rule=_WINDOW),
        "ministral": Dense(rule=_WINDOW),
        "mixtral": Dense(rule=_WINDOW, feed=moe.mixtral),
        "gemma": _GEMMA,
        "gemma2": Dense(
            plan="both",
            biases="qkvo",
            bias_key="attention_bias",
            act="hidden_activation",
            rule=windows.alternate("sliding_attention", "full_attention"),
        ),
        "gemma3_text": Dense(
            plan="both",
            biases="qkvo",
            bias_key="attention_bias",
            act="hidden_activation",
            qk_norm="head",
            rule=windows.last_of("sliding_window_pattern", 6),
        ),
        "qwen2": Dense(biases="qkv", rule=windows.from_max_window_layers),
        "qwen2_moe": Dense(
            biases="qkv",
            bias_key="qkv_bias",
            rule=windows.from_max_window_layers,
            feed=moe.qwen(shared=True),
        ),
        "qwen3": _QWEN3,
        "qwen3_moe": Dense(
            biases="qkvo",
            bias_key="attention_bias",
            qk_norm="head",
            rule=windows.from_max_window_layers,
            feed=moe.qwen(shared=False),
        ),
        "phi": Dense(
            plan="parallel",
            norm="layernorm",
            gated=False,
            biases="qkvo",
            mlp_biases="io",
            head_bias=True,
            qk_norm="head",
            qk_norm_key="qk_layernorm",
            qk_norm_kind="layernorm",
        ),
        "phi3": Dense(rule=_WINDOW),
        "starcoder2": Dense(
            norm="layernorm",
            gated=False,
            biases="qkvo",
            bias_key="use_bias",
            mlp_biases="io",
            mlp_bias_key="use_bias",
            rule=_WINDOW,
        ),
        "olmo": _OLMO,
        "olmo2": Dense(plan="post", biases="qkvo", bias_key="attention_bias", qk_norm="width"),
        "olmo3": Dense(
            plan="post",
            biases="qkvo",
            bias_key="attention_bias",
            qk_norm="width",
            rule=windows.last_of("sliding_window_pattern", 4),
        ),
        "olmoe": Dense(biases="qkvo", bias_key="attention_bias", qk_norm="width", feed=moe.mixtral),
        "cohere": Dense(
            plan="parallel",
            norm="gain",
            biases="qkvo",
            bias_key="attention_bias",
            qk_norm="heads",
            qk_norm_key="use_qk_norm",
            qk_norm_kind="gain",
        ),
        "cohere2": Dense(
            plan="parallel",
            norm="gain",
            biases="qkvo",
            bias_key="attention_bias",
            rule=windows.last_of("sliding_window_pattern", 4),
        ),
        "nemotron": Dense(
            norm="layernorm",
            gated=False,
            biases="qkvo",
            bias_key="attention_bias",
            mlp_biases="io",
            mlp_bias_key="mlp_bias",
        ),
        "gpt2": _GPT2,
        "gptj": _GPTJ,
        "codegen": _GPTJ,
        "persimmon": Dense(
            norm="layernorm",
            gated=False,
            biases="qkvo",
            mlp_biases="io",
            kv_key=None,
            qk_norm="head",
            qk_norm_key="qk_layernorm",
            qk_norm_kind="layernorm",
        ),
        "arcee": Dense(
            gated=False,
            biases="qkvo",
            bias_key="attention_bias",
            mlp_biases="io",
            mlp_bias_key="mlp_bias",
        ),
        "ernie4_5": Dense(
            biases="qkvo", bias_key="use_bias", mlp_biases="gio", mlp_bias_key="use_bias"
        ),
        "exaone4": Dense(
            plan="post", qk_norm="head", rule=windows.last_of("sliding_window_pattern", 4)
        ),
        "glm": Dense(biases="qkv", bias_key="attention_bias"),
        "glm4": Dense(plan="both", biases="qkv", bias_key="attention_bias"),
        "hunyuan_v1_dense": Dense(biases="qkvo", bias_key="attention_bias", qk_norm="head"),
        "internlm2": Dense(biases="qkvo", bias_key="bias"),
        "mimo": Dense(biases="qkv", bias_key="attention_bias"),
        "grok-1": Dense(plan="both", feed=moe.mixtral),
    }
)

#: The rows that other readers start from.
GPT2, GPT_NEOX, LLAMA = _GPT2, _GPT_NEOX, _LLAMA
