"""The model: where its sizes come from, its parameters and its FLOPs."""

from __future__ import annotations

from sympy import Expr

from symscale.algebra.symbols import T, info
from symscale.report.document import Block, Section, section, table, text
from symscale.report.numbers import count, memory, number, percent
from symscale.report.rich import Code, Math
from symscale.report.study import TrainingStudy

_NAMES = {"attention": "attention projections", "mlp": "MLP"}


def model_chapter(study: TrainingStudy) -> list[Section]:
    """Sizes with their source, parameters and FLOPs as formulas and numbers."""
    return [
        section("The model", *_sizes(study)),
        section("Parameters", _parameters(study), level=2),
        section("FLOPs", *_flops(study), level=2),
    ]


def _sizes(study: TrainingStudy) -> list[Block]:
    model = study.model
    assumed = ", ".join(model.config.defaulted)
    named = model.config.raw.get("_name_or_path")
    origin = text(
        "The sizes below are those of the configuration of ",
        Code(model.name),
        f" ({model.config.source}{f', published as {named}' if named else ''}).",
        f" Keys that the configuration leaves out and that took the default of its class: "
        f"{assumed}."
        if assumed
        else "",
    )
    rows = [(Math(symbol), info(symbol).meaning, count(size)) for symbol, size in model.items()]
    return [origin, table(["symbol", "meaning", ("size", "right")], rows, "Sizes of the model.")]


def _parameters(study: TrainingStudy) -> Block:
    params = study.model.params
    counts = params.counts()
    rows = [
        (name, Math(expr), count(counts[name]), percent(counts[name] / params.count))
        for name, expr in params.components.items()
    ]
    rows.append(("total", Math(params.total), count(params.count), percent(1.0)))
    return table(
        ["component", "formula", ("count", "right"), ("share", "right")],
        rows,
        "Parameters: the sizes of all weights of the programs, the layer's counted L times.",
    )


def _flops(study: TrainingStudy) -> list[Block]:
    model, values = study.model, study.result.values
    rows = []
    for name, forward in model.flops_by_component().items():
        shown = _NAMES.get(name, name)
        rows.append((shown, Math(forward), number(_value(forward, study))))
    forward, training = model.flops_per_token(), model.flops_per_token(training=True)
    rows.append(("forward", Math(forward), number(_value(forward, study))))
    rows.append(("training", Math(training), number(_value(training, study))))
    kv = model.kv_bytes_per_token()
    scores = model.attention_flops_per_token()
    return [
        table(
            ["part", "FLOPs a token", ("number", "right")],
            rows,
            f"Matrix FLOPs for one token in sequences of {study.length:,} tokens.",
            notes=[
                "A multiply-add is two FLOPs. The backward pass is every product transposed "
                "for both "
                "operands, so training is three times forward; nothing is computed twice.",
                "Attention scores are counted in full (no causal halving); the embedding is a "
                "lookup "
                "and has none; norms, softmax and activations run on the vector unit and are left "
                "out.",
            ],
        ),
        text(
            "Scores are ",
            percent(_value(scores, study) / _value(forward, study)),
            " of the forward FLOPs at this length. The key/value cache of one token takes ",
            Math(kv),
            " bytes in bf16: ",
            memory(float(kv.subs(values))),
            ".",
        ),
    ]


def _value(expr: Expr, study: TrainingStudy) -> float:
    return float(expr.subs(study.model).subs(T, study.length))
