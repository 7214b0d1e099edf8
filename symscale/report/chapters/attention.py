"""When attention passes the MLP and the other matmuls."""

from __future__ import annotations

from sympy import Expr

from symscale.algebra.printing import to_plain
from symscale.algebra.symbols import D, F, H, K, N
from symscale.report.document import (
    Cell,
    DerivationBlock,
    Paragraph,
    Section,
    equation,
    section,
    table,
    text,
)
from symscale.report.numbers import number
from symscale.report.rich import Math
from symscale.report.study import TrainingStudy
from symscale.studies.attention import RIVALS, attention_passes

#: Characters of a formula beyond which it is not shown whole.
_READABLE = 300


def attention_chapter(study: TrainingStudy) -> list[Section]:
    """The sequence lengths from which attention's scores cost more than the rest."""
    model = study.model
    rows = [_row(study, rival, causal) for rival in RIVALS for causal in (False, True)]
    mlp = attention_passes(model)
    return [
        section(
            "When attention passes the MLP",
            text(
                "Scores grow with the sequence, ",
                Math(mlp.scores),
                " FLOPs a token in a layer; the MLP does not, ",
                Math(mlp.other),
                ".",
            ),
            DerivationBlock(mlp.answer.derivation, "Attention against the MLP"),
            table(
                ["attention's scores against", "scores counted", "wall", ("tokens", "right")],
                rows,
                f"Sequence lengths from which scores cost more, for {model.name}.",
            ),
            _rule_of_thumb(study),
        )
    ]


def _row(study: TrainingStudy, rival: str, causal: bool) -> tuple[Cell, ...]:
    answer = attention_passes(study.model, rival, causal).answer
    here = answer.at(study.model)
    return (
        _RIVAL_NAMES[rival],
        "half (causal)" if causal else "all",
        _wall(answer.thresholds[0]) if answer.thresholds else answer.kind,
        number(float(here.thresholds[0]), "tokens", 6) if here.thresholds else here.kind,
    )


def _wall(expr: Expr) -> Cell:
    """A wall as a formula, unless it fills a page."""
    return Math(expr) if len(to_plain(expr)) <= _READABLE else "a root too long to be set"


def _rule_of_thumb(study: TrainingStudy) -> Paragraph:
    """The textbook's layer as a special case of the wall against the whole layer."""
    walls = attention_passes(study.model, "layer").answer.thresholds
    ending = f"Here sequences have {study.length:,} tokens."
    if len(walls) != 1:
        return text(ending)
    textbook = walls[0].subs({F: 4 * D, K: N}).subs(H, D / N).cancel()
    if textbook.free_symbols != {D}:
        return text(ending)
    return text(
        "With as many key/value heads as query heads, heads as wide as the model and ",
        equation(F, 4 * D),
        ", the wall against the whole layer is at ",
        equation(Math("T"), textbook),
        f", the textbook's rule of thumb. {ending}",
    )


_RIVAL_NAMES = {
    "projections": "the attention projections",
    "mlp": "the MLP",
    "layer": "all other matmuls of the layer",
}
