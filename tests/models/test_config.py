"""Reading a config.json: the keys that count, and every refusal in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.errors import ModelError
from symscale.models.blocks import Attention
from symscale.models.config import ModelConfig, known_model_types, read_config
from symscale.models.jsonfile import MAX_CONFIG_BYTES

BASE: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "head_dim": 16,
}


def with_keys(**changed: Any) -> dict[str, Any]:
    return BASE | changed


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in BASE.items() if key not in keys}


def windows(config: ModelConfig) -> set[int | None]:
    return {part.window for part in config.body.find(Attention)}  # type: ignore[union-attr]


def refusal(source: Any) -> str:
    with pytest.raises(ModelError) as caught:
        read_config(source)
    message = str(caught.value)
    assert message.isprintable()
    assert 10 < len(message) < 2000
    return message


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "config.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


class TestWhatIsRead:
    def test_every_attribute(self) -> None:
        config = read_config(BASE, name="tiny")
        assert config == ModelConfig(
            name="tiny",
            source="given mapping",
            model_type="llama",
            layers=2,
            width=96,
            ff=256,
            heads=6,
            kv_heads=2,
            head_dim=16,
            vocab=1000,
            context=512,
            tied=False,
            gated=True,
            norm="rmsnorm",
            dtype="bf16",
        )
        assert dict(config.raw) == BASE
        assert hash(config) == hash(read_config(BASE, name="tiny"))

    def test_to_dict_is_json_and_html_escapes(self) -> None:
        config = read_config(without("head_dim"), name="<b>")
        assert json.loads(json.dumps(config.to_dict()))["defaulted"] == ["head_dim"]
        assert "&lt;b&gt;" in config._repr_html_()
        assert "<b>" not in config._repr_html_()

    def test_raw_is_a_copy_that_cannot_be_written(self) -> None:
        mine = with_keys(rope_scaling={"factor": 8.0})
        config = read_config(mine)
        mine["rope_scaling"]["factor"] = 1.0
        assert config.raw["rope_scaling"] == {"factor": 8.0}
        with pytest.raises(TypeError):
            config.raw["vocab_size"] = 1  # type: ignore[index]

    def test_reads_its_own_raw_again(self) -> None:
        config = read_config(BASE)
        assert read_config(config.raw) == config

    def test_a_file_and_its_directory(self, tmp_path: Path) -> None:
        folder = tmp_path / "my-model"
        folder.mkdir()
        path = write(folder, "\ufeff" + json.dumps(BASE))
        for source in (path, str(path), folder, str(folder)):
            config = read_config(source)
            assert (config.name, config.source) == ("my-model", str(source))
            assert config.width == 96

    def test_name_of_another_file(self, tmp_path: Path) -> None:
        path = tmp_path / "llama-x.json"
        path.write_text(json.dumps(BASE))
        assert read_config(path).name == "llama-x"
        assert read_config(path, name="y").name == "y"

    def test_name_from_the_mapping(self) -> None:
        assert read_config(with_keys(_name_or_path="org/model-7b/")).name == "model-7b"
        assert read_config(with_keys(_name_or_path="")).name == "custom"

    @pytest.mark.parametrize("activation", ["silu", "swiglu", "gelu"])
    def test_llama_mlp_is_gated_whatever_its_activation(self, activation: str) -> None:
        assert read_config(with_keys(hidden_act=activation)).gated


class TestAbsentKeys:
    def test_defaults_are_reported(self) -> None:
        config = read_config(
            without("head_dim", "num_key_value_heads", "hidden_act", "tie_word_embeddings")
        )
        assert (config.head_dim, config.kv_heads, config.tied) == (16, 6, False)
        assert set(config.defaulted) == {
            "head_dim",
            "num_key_value_heads",
            "hidden_act",
            "tie_word_embeddings",
        }

    def test_context_may_be_unknown(self) -> None:
        assert read_config(without("max_position_embeddings")).context is None

    def test_null_kv_heads_are_the_heads(self) -> None:
        assert read_config(with_keys(num_key_value_heads=None)).kv_heads == 6

    def test_mistral_kv_heads_absent_is_eight_null_is_heads(self) -> None:
        mistral = with_keys(model_type="mistral", num_attention_heads=16, sliding_window=None)
        del mistral["num_key_value_heads"]
        assert read_config(mistral).kv_heads == 8
        assert read_config(mistral | {"num_key_value_heads": None}).kv_heads == 16

    def test_mistral_window(self) -> None:
        mistral = with_keys(model_type="mistral", max_position_embeddings=8192)
        absent = read_config(mistral)
        assert windows(absent) == {4096}
        assert "sliding_window" in absent.defaulted
        assert windows(read_config(mistral | {"sliding_window": None})) == {None}
        assert windows(read_config(mistral | {"sliding_window": 8192})) == {None}
        assert windows(read_config(mistral | {"sliding_window": 256})) == {256}


class TestFaultsSeenInOtherTools:
    """Faults reported by users of such tools, each with two more inputs of its kind."""

    def test_nested_text_config_wins_over_the_vision_tower(self) -> None:
        wrapped = {"num_hidden_layers": 33, "hidden_size": 1024, "text_config": BASE}
        wrapped["text_config"] = with_keys(num_hidden_layers=40)
        assert read_config(wrapped).layers == 40
        assert round(100 * (1 - 33 / read_config(wrapped).layers), 1) == 17.5

    @pytest.mark.parametrize(("outer", "inner"), [(24, 61), (48, 16)])
    def test_nested_layers_of_other_sizes(self, outer: int, inner: int) -> None:
        text = with_keys(num_hidden_layers=inner)
        wrapped = with_keys(num_hidden_layers=outer, hidden_size=77, text_config=text)
        config = read_config(wrapped)
        assert (config.layers, config.width) == (inner, 96)

    def test_nested_text_config_does_not_borrow_the_towers_sizes(self) -> None:
        wrapped = with_keys(text_config=without("num_hidden_layers"))
        message = refusal(wrapped)
        assert "missing num_hidden_layers; a text_config of model_type llama needs" in message

    def test_a_typed_wrapper_lists_only_what_differs_from_the_class(self) -> None:
        # As llava-1.5 does: the text part leaves out every size that its class has by default.
        text = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
        config = read_config({"model_type": "llava", "text_config": text})
        assert (config.layers, config.width, config.ff, config.vocab) == (32, 4096, 11008, 32064)
        assert {"num_hidden_layers", "hidden_size", "intermediate_size"} <= set(config.defaulted)

    @pytest.mark.parametrize(
        ("width", "heads", "kv_heads", "head_dim", "rows"),
        [
            (5120, 64, 8, 128, 10240),
            (1792, 24, 24, 128, 9216),
            (2560, 32, 8, 128, 6144),
            (3072, 16, 16, 256, 12288),
        ],
    )
    def test_explicit_head_dim_sets_the_rows(
        self, width: int, heads: int, kv_heads: int, head_dim: int, rows: int
    ) -> None:
        config = read_config(
            with_keys(
                hidden_size=width,
                num_attention_heads=heads,
                num_key_value_heads=kv_heads,
                head_dim=head_dim,
            )
        )
        assert (config.heads + 2 * config.kv_heads) * config.head_dim == rows
        assert "head_dim" not in config.defaulted

    def test_head_dim_null_must_divide(self) -> None:
        bad = with_keys(hidden_size=1792, num_attention_heads=24, head_dim=None)
        assert "hidden_size 1792 is not a multiple" in refusal(bad)

    @pytest.mark.parametrize(
        ("keys", "dtype"),
        [
            ({"torch_dtype": "bfloat16"}, "bf16"),
            ({"dtype": "bfloat16"}, "bf16"),
            ({"dtype": "float16"}, "f16"),
            ({"torch_dtype": "float32"}, "f32"),
            ({"torch_dtype": "torch.float16"}, "f16"),
            ({"dtype": "float32", "torch_dtype": "float16"}, "f32"),
        ],
    )
    def test_dtype_under_both_keys_at_both_levels(self, keys: dict[str, str], dtype: str) -> None:
        plain = without("torch_dtype")
        for config in (plain | keys, {"text_config": plain | keys}, keys | {"text_config": plain}):
            read = read_config(config)
            assert read.dtype == dtype
            assert read.defaulted == ()

    @pytest.mark.parametrize("keys", [{}, {"torch_dtype": None}, {"dtype": "auto"}])
    def test_absent_dtype_is_a_stated_assumption(self, keys: dict[str, Any]) -> None:
        config = read_config(without("torch_dtype") | keys)
        assert config.dtype == "bf16"
        assert config.defaulted == ("torch_dtype",)


class TestRefusals:
    def test_all_missing_keys_are_listed(self) -> None:
        message = refusal(without("hidden_size", "vocab_size"))
        assert message.startswith("config: missing hidden_size, vocab_size;")

    def test_missing_model_type(self) -> None:
        assert f"missing model_type; known: {', '.join(known_model_types())}" in refusal(
            without("model_type")
        )

    @pytest.mark.parametrize("given", ["rwkv", "lama", 7, ["llama"], "gpt2\nx"])
    def test_unknown_model_type_lists_the_known(self, given: object) -> None:
        message = refusal(with_keys(model_type=given))
        assert f"is not known; known: {', '.join(known_model_types())}" in message

    def test_near_model_type(self) -> None:
        assert "did you mean llama" in refusal(with_keys(model_type="lama"))

    def test_unknown_model_type_says_what_is_missing(self) -> None:
        message = refusal({"model_type": "new", "hidden_size": 8, "n_layer": 2})
        lacks = "lacks intermediate_size, num_attention_heads, vocab_size"
        assert message.endswith(lacks)

    @pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "head_dim"])
    @pytest.mark.parametrize(
        ("value", "fault"),
        [
            (True, "not a boolean"),
            ("96", "not a string"),
            (96.0, "not a number with a decimal point"),
            (0.5, "not a number with a decimal point"),
            (0, "not zero"),
            (-96, "not negative"),
            (2**60, "not larger"),
            ([96], "not an array"),
            ({"a": 1}, "not an object"),
        ],
    )
    def test_sizes_are_whole_positive_numbers(self, key: str, value: object, fault: str) -> None:
        message = refusal(with_keys(**{key: value}))
        assert message.startswith(f"config: {key} is ")
        assert message.endswith(fault)

    def test_heads_are_a_multiple_of_kv_heads(self) -> None:
        message = refusal(with_keys(num_key_value_heads=4))
        assert "num_attention_heads 6 is not a multiple of num_key_value_heads 4" in message

    @pytest.mark.parametrize(
        ("key", "value"),
        [("num_local_experts", 8), ("n_routed_experts", 256), ("sliding_window", 128)],
    )
    def test_what_the_class_does_not_read_is_refused(self, key: str, value: object) -> None:
        assert f"{key} {value}: a llama" in refusal(with_keys(**{key: value}))

    def test_a_window_that_no_key_gives(self) -> None:
        kinds = ["full_attention", "sliding_attention"]
        assert "sliding_window is missing" in refusal(with_keys(layer_types=kinds))
        found = read_config(with_keys(layer_types=kinds, sliding_window=64))
        assert windows(found) == {None, 64}

    @pytest.mark.parametrize("kinds", [["full_attention"], "full", [["full_attention"], 1]])
    def test_layer_types_that_do_not_fit(self, kinds: object) -> None:
        assert "layer_types" in refusal(with_keys(layer_types=kinds))

    @pytest.mark.parametrize("experts", [None, 0, 1])
    def test_no_or_one_expert_is_dense(self, experts: int | None) -> None:
        assert read_config(with_keys(num_local_experts=experts)).ff == 256

    @pytest.mark.parametrize(
        ("key", "value"),
        [("tie_word_embeddings", 1), ("hidden_act", "silly"), ("hidden_act", 3)],
    )
    def test_other_wrong_types(self, key: str, value: object) -> None:
        assert refusal(with_keys(**{key: value})).startswith(f"config: {key} ")

    @pytest.mark.parametrize("dtype", ["float8_e4m3fn", 16, ["bfloat16"]])
    def test_unknown_dtype(self, dtype: object) -> None:
        assert "known: bfloat16, float16, float32" in refusal(with_keys(torch_dtype=dtype))

    @pytest.mark.parametrize("source", [None, 7, [1]])
    def test_neither_path_nor_mapping(self, source: object) -> None:
        assert "a config is a path or a mapping" in refusal(source)

    def test_text_config_that_is_no_object(self) -> None:
        assert "text_config is an array; it must be an object" in refusal(with_keys(text_config=[]))


class TestHostileFiles:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('{\n  "a": 1,\n  b\n}', "is not JSON: Expecting property name"),
            ("", "line 1 column 1"),
            ("{'a': 1}", "is not JSON"),
            (b"\xff\xfe{}", "byte 0 is not UTF-8"),
            (b"\x00" * 10, "is not JSON"),
            ("[1, 2]", "holds an array; a config is a JSON object"),
            ("null", "holds null"),
            ('{"hidden_size": NaN}', "NaN is not a JSON number"),
            ('{"hidden_size": -Infinity}', "-Infinity is not a JSON number"),
            ('{"hidden_size": 1e999}', "1e999 is out of range"),
            ('{"a": 1, "a": 2}', 'key "a" occurs twice'),
            ('{"a": ' + "9" * 5000 + "}", "is not a valid config"),
            ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
            ('{"a": ' * 2_000 + "1" + "}" * 2_000, "nested too deeply"),
            (" " * (MAX_CONFIG_BYTES + 1), "is larger than 1 MiB"),
        ],
        ids=lambda value: repr(value)[:24],
    )
    def test_refused_in_one_line(self, tmp_path: Path, text: str | bytes, said: str) -> None:
        assert said in refusal(write(tmp_path, text))

    def test_place_of_a_syntax_error(self, tmp_path: Path) -> None:
        assert "at line 3 column 3" in refusal(write(tmp_path, '{\n  "a": 1,\n  b\n}'))

    def test_endless_file_is_not_read_to_its_end(self) -> None:
        if Path("/dev/zero").exists():
            assert "is larger than 1 MiB" in refusal("/dev/zero")

    def test_absent_file_and_empty_directory(self, tmp_path: Path) -> None:
        assert "no file" in refusal(tmp_path / "absent.json")
        assert "config.json'; give a config.json" in refusal(tmp_path)
        assert "no file" in refusal("bad\0name")

    def test_deeply_nested_mapping(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(5_000):
            deep = {"a": deep}
        assert "nested too deeply" in refusal(deep)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*BASE, "text_config", "dtype"]), json_values))
def test_any_mapping_is_read_or_refused_in_one_line(changed: dict[str, Any]) -> None:
    said = "."
    try:
        config = read_config(BASE | changed)
        assert config.heads % config.kv_heads == 0
    except ModelError as error:
        said = str(error)
    assert said.isprintable()


def test_import_is_free_of_sympy() -> None:
    code = "import sys, symscale.models.zoo; sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
