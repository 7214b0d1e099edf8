"""Published numbers of serving systems."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "truth"


@cache
def published() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / "serving.json").read_text("utf-8"))
    return data
