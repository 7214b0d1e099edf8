"""Writes what is committed of the catalogue: ``python -m tests.xla.catalogue``.

The lists go to ``tests/truth/xla_agreement.json`` (replayed without JAX), the page to
``reports/xla-agreement/agreement.md``.
"""

from __future__ import annotations

import json
from pathlib import Path

from symscale.xla.catalogue import Agreement, check_catalogue, lists
from symscale.xla.catalogue_page import page

ROOT = Path(__file__).parents[2]
TRUTH = ROOT / "tests" / "truth" / "xla_agreement.json"
PAGE = ROOT / "reports" / "xla-agreement" / "agreement.md"


def truth_text(found: Agreement) -> str:
    """The lists as JSON, a line a case."""
    cases = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in lists(found).items()
    )
    return f'{{\n "jax": {json.dumps(found.version)},\n "cases": {{\n{cases}\n }}\n}}\n'


if __name__ == "__main__":
    made = check_catalogue()
    TRUTH.write_text(truth_text(made), "utf-8")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(made), "utf-8")
    print(made)
