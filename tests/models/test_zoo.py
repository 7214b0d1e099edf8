"""The zoo's configurations against published counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from symscale.algebra.errors import ModelError
from symscale.models.config import read_config
from symscale.models.model import model
from symscale.models.zoo import find_config, zoo_entry, zoo_names

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "models.json").read_text())["models"]


@pytest.mark.parametrize("name", [n for n in TRUTH if "parameters" in TRUTH[n]])
def test_parameters_to_the_unit(name: str) -> None:
    assert model(name).params.count == TRUTH[name]["parameters"]


@pytest.mark.parametrize("name", [n for n in TRUTH if "published" in TRUTH[n]])
def test_rounded_parameters(name: str) -> None:
    row = TRUTH[name]
    assert abs(model(name).params.count / row["published"] - 1) <= row["tolerance"]


@pytest.mark.parametrize("name", [n for n in TRUTH if "kv_bytes_per_token_bf16" in TRUTH[n]])
def test_kv_bytes_to_the_unit(name: str) -> None:
    found = model(name)
    assert found.kv_bytes_per_token().subs(found) == TRUTH[name]["kv_bytes_per_token_bf16"]


def test_at_least_forty_models_of_many_families() -> None:
    assert len(zoo_names()) >= 40
    assert len({find_config(name).model_type for name in zoo_names()}) >= 30


def test_every_model_has_a_published_value_with_its_source() -> None:
    assert set(TRUTH) == set(zoo_names())
    assert all(row["source"].startswith("https://") for row in TRUTH.values())
    assert not [row for row in TRUTH.values() if "Safetensors, model size" in row["source"]]


@pytest.mark.parametrize("name", zoo_names())
def test_entry_is_complete(name: str) -> None:
    entry = zoo_entry(name)
    config = find_config(name)
    assert config.name == name
    assert config.source == entry.source
    assert entry.source.startswith("https://")
    assert entry.license
    assert json.loads(json.dumps(entry.to_dict()))["config"] == dict(config.raw)


def test_every_entry_says_what_it_was_compared_with() -> None:
    entries = [zoo_entry(name) for name in zoo_names()]
    rows = json.loads(resources.files("symscale.models").joinpath("data/zoo.json").read_text())
    assert all("checked" in row for row in rows)
    assert all(entry.to_dict()["checked"] == entry.checked for entry in entries)
    assert sum(entry.checked is not None for entry in entries) >= 114
    recalled = "recalled, not compared with the published file"
    assert all(recalled in entry.source for entry in entries if entry.checked is None)


@pytest.mark.parametrize("name", zoo_names())
def test_what_was_compared_is_a_file_and_names_the_keys_left(name: str) -> None:
    entry = zoo_entry(name)
    assert entry.checked is not None
    where, _, said = entry.checked.rpartition(" (")
    assert all(part.startswith("https://") for part in where.split("; "))
    assert re.search(r"\.(json|jsonl|md|py|yml)\b|/commit/", where)
    left = re.fullmatch(r"(?:every size|all sizes but (.+), not confirmed there.*)\)", said)
    assert left is not None
    for key in (left[1] or "").split(", "):
        found: object = dict(entry.config)
        for part in key.split(".") if key else ():
            assert isinstance(found, dict)
            assert part in found, key
            found = found[part]


def test_the_card_shows_what_was_compared() -> None:
    entry = zoo_entry("gpt2")
    assert f"checked: {entry.checked}" in " ".join(model("gpt2").card().split())
    assert model("gpt2").to_dict()["checked"] == entry.checked
    assert model(dict(entry.config)).to_dict()["checked"] is None


@pytest.mark.parametrize("given", ["", 3, True, ["a"]])
def test_checked_is_a_name_or_nothing(given: object) -> None:
    with pytest.raises(ModelError, match="checked is the name of a file or None, not "):
        replace(zoo_entry("gpt2"), checked=given)  # type: ignore[arg-type]


def test_contexts_and_dtypes_as_published() -> None:
    for name in (n for n in zoo_names() if n.startswith(("llama-2", "llama-3"))):
        config = find_config(name)
        old = {"llama-2": (4096, "f16"), "llama-3-": (8192, "bf16")}
        expected = next((v for k, v in old.items() if name.startswith(k)), (131072, "bf16"))
        assert (config.context, config.dtype) == expected
        assert config.tied == name.startswith("llama-3.2")


def test_no_name_or_alias_is_used_twice() -> None:
    names = [n for name in zoo_names() for n in (name, *zoo_entry(name).aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize(
    "given", ["LLAMA-3.1-405B", "llama-3-405b", "meta-llama/Llama-3.1-405B", " llama3.1-405b "]
)
def test_case_and_aliases(given: str) -> None:
    assert find_config(given).name == "llama-3.1-405b"


def test_paths_and_mappings(tmp_path: Path) -> None:
    entry = zoo_entry("llama-3.2-1b")
    (tmp_path / "config.json").write_text(json.dumps(dict(entry.config)))
    by_path = find_config(str(tmp_path / "config.json"))
    assert by_path == find_config(tmp_path / "config.json")
    assert by_path.width == find_config(entry.config).width == 2048
    assert find_config(entry.config) == read_config(entry.config)


def test_a_directory_without_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dict(zoo_entry("llama-2-7b").config)))
    monkeypatch.chdir(tmp_path)
    assert find_config("mine").name == "mine"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("lama-3-70b", "unknown model 'lama-3-70b'; did you mean llama-3-70b or "),
        ("qqq", "unknown model 'qqq'; known: llama-2-7b, "),
        ("", "unknown model ''; known: "),
        ("a\nb\0", "unknown model 'a\\nb\\x00'; known: "),
        ("org/absent", "no file 'org/absent'; give a config.json"),
        ("absent.json", "no file 'absent.json'; give a config.json"),
        (70, "a config is a path or a mapping, not int: 70"),
    ],
)
def test_unknown_names_in_one_line(given: object, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        find_config(given)  # type: ignore[arg-type]
    assert str(caught.value).startswith(said)
    assert str(caught.value).isprintable()
