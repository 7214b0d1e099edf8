"""When attention passes the MLP and the other matmuls."""

from __future__ import annotations

from symscale.algebra.symbols import D, F, H, K, N
from symscale.report.document import DerivationBlock, Section, equation, section, table, text
from symscale.report.numbers import number
from symscale.report.rich import Math
from symscale.report.study import TrainingStudy
from symscale.studies.attention import RIVALS, attention_passes


def attention_chapter(study: TrainingStudy) -> list[Section]:
    """The sequence lengths from which attention's scores cost more than the rest."""
    model = study.model
    rows = []
    for rival in RIVALS:
        for causal in (False, True):
            wall = attention_passes(model, rival, causal).wall
            said = "half (causal)" if causal else "all"
            value = number(float(wall.subs(model)), "tokens", 6)
            rows.append((_RIVAL_NAMES[rival], said, Math(wall), value))
    mlp = attention_passes(model)
    whole = attention_passes(model, "layer").wall
    textbook = whole.subs({F: 4 * D, K: N}).subs(H, D / N).cancel()
    return [
        section(
            "When attention passes the MLP",
            text(
                "Scores grow with the sequence, ",
                Math(mlp.scores),
                " FLOPs a token and layer; the MLP does not, ",
                Math(mlp.other),
                ". So there is one length where they meet.",
            ),
            DerivationBlock(mlp.answer.derivation, "Attention against the MLP"),
            table(
                ["attention's scores against", "scores counted", "wall", ("tokens", "right")],
                rows,
                f"Sequence lengths from which scores cost more, for {model.name}.",
            ),
            text(
                "With as many key/value heads as query heads, heads as wide as the model and ",
                equation(F, 4 * D),
                ", the wall against the whole layer is at ",
                equation(Math("T"), textbook),
                f", the textbook's rule of thumb. Here sequences have {study.length:,} tokens.",
            ),
        )
    ]


_RIVAL_NAMES = {
    "projections": "the attention projections",
    "mlp": "the MLP",
    "layer": "all other matmuls of the layer",
}
