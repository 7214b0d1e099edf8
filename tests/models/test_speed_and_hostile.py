"""A stranger's large configuration: fast where it is honest, one line where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from symscale.algebra.errors import ModelError
from symscale.cli import main
from symscale.models.model import model
from symscale.models.zoo import zoo_entry, zoo_names


def big(kilobytes: int) -> dict[str, Any]:
    """DeepSeek-V3's configuration among so much that nobody reads."""
    config = dict(zoo_entry("deepseek-v3").config)
    config["id2label"] = {str(i): f"LABEL_{i}" for i in range(kilobytes * 1024 // 24)}
    return config


def test_thirty_kilobytes_in_under_a_second(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(big(40)))
    assert path.stat().st_size > 30 * 1024
    started = time.perf_counter()
    assert main(["params", str(path), "--json"]) == 0
    assert time.perf_counter() - started < 1
    assert json.loads(capsys.readouterr().out)["total"] == model("deepseek-v3").params.count


def test_a_hundred_megabytes_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    started = time.perf_counter()
    code = [sys.executable, "-m", "symscale", "params", str(path)]
    made = subprocess.run(code, capture_output=True, text=True, check=False)
    assert time.perf_counter() - started < 10
    assert made.returncode == 2
    assert made.stdout == ""
    assert made.stderr.count("\n") == 1
    assert "is larger than 1 MiB" in made.stderr


FAULTS = [
    ("num_hidden_layers", -1), ("num_hidden_layers", 2.5), ("num_hidden_layers", 10**6),
    ("moe_intermediate_size", 0), ("moe_intermediate_size", "2048"), ("kv_lora_rank", -512),
    ("num_experts_per_tok", 10_000), ("n_routed_experts", 1.5), ("first_k_dense_replace", -3),
    ("qk_rope_head_dim", [64]), ("q_lora_rank", {"a": 1}), ("n_shared_experts", True),
    ("tie_word_embeddings", "false"), ("num_nextn_predict_layers", 0.5), ("v_head_dim", 2**60),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), FAULTS, ids=str)
def test_wrong_sizes_in_one_line(key: str, value: object) -> None:
    config = dict(zoo_entry("deepseek-v3").config) | {key: value}
    with pytest.raises(ModelError) as caught:
        model(config)
    message = str(caught.value)
    assert message.isprintable()
    assert key in message or "layers" in message


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400", "[" * 5000 + "]" * 5000])
def test_values_that_json_does_not_have(tmp_path: Path, value: str) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": ' + value + "}")
    with pytest.raises(ModelError) as caught:
        model(path)
    assert str(caught.value).isprintable()


def test_an_infinity_where_no_size_is_read(tmp_path: Path) -> None:
    """Published state-space models write one as an upper limit."""
    path = tmp_path / "config.json"
    text = json.dumps(dict(zoo_entry("nemotron-h-56b").config))
    path.write_text(text[:-1] + ', "time_step_limit": [0.0, Infinity]}')
    assert model(path).params.count == model("nemotron-h-56b").params.count
    path.write_text('{"model_type": "llama", "hidden_size": Infinity}')
    with pytest.raises(ModelError, match=r"missing num_hidden_layers|hidden_size is"):
        model(path)


@pytest.mark.parametrize("key", ["num_local_experts", "num_experts"])
@pytest.mark.parametrize("value", [None, 0, 1])
def test_no_experts_by_any_word(key: str, value: int | None) -> None:
    config = dict(zoo_entry("mixtral-8x7b").config)
    del config["num_local_experts"]
    found = model(config | {key: value})
    assert "experts" not in found.params.components
    assert not found.params.sparse


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "t5-base", "qwen3.5-27b"])
@pytest.mark.parametrize("command", ["params", "models", "flops"])
def test_commands_fit_eighty_columns(
    capsys: pytest.CaptureFixture[str], command: str, name: str
) -> None:
    more = ["--context", "4096", "--training"] if command == "flops" else []
    assert main([command, name, *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if "://" not in line) <= 80
    assert main([command, name, *more, "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_every_model_of_the_zoo_has_all_counts() -> None:
    for name in zoo_names():
        found = model(name)
        for expr in (found.flops_per_token(64), found.kv_bytes(64), found.weight_bytes()):
            assert not expr.subs(found).free_symbols, name
