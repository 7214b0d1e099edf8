"""A server in its system, the sweep around it, and both on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symscale.algebra.errors import ModelError, SymbolError
from symscale.cli import main
from symscale.studies.inference import inference
from symscale.studies.serving.explore import explore, explore_around, halved
from symscale.studies.serving.system import serving_system

SERVER = inference("llama-3-70b", weights="int8", kv="int8").at(
    "tpu-v5e", chips=16, batch=32, context=8192
)


def test_system_has_the_servers_own_times() -> None:
    found = serving_system(SERVER, prompt=7680, answer=512, link=25e9, alpha=0.8)
    step, prompt = SERVER.step_time, found.prompt_seconds
    assert found.batching.requests == pytest.approx(32 / (512 * step + 32 * prompt))
    assert found.disaggregation.ratio == pytest.approx(32 * prompt / (512 * step))
    assert found.cache_bytes == 7680 * 163_840
    assert found.transfer is not None
    assert found.transfer.time == pytest.approx(7680 * 163_840 / 25e9)
    assert found.smallest_link == pytest.approx(7680 * 163_840 / prompt)
    assert found.best_draft is not None
    assert found.best_draft.speedup > 1.5


def test_chunk_that_rides_free() -> None:
    """int8 weights under bf16 arithmetic: compute-bound from about 120 tokens, 32 of them taken."""
    found = serving_system(SERVER, prompt=7680, answer=512)
    chunk = found.largest_free_chunk
    assert chunk + 32 == pytest.approx(1.97e14 / 2 / 8.19e11, rel=0.03)
    wall = found.chunks.compute_bound.at(b=32)
    assert not wall.holds(S_chunk=chunk)
    assert wall.holds(S_chunk=chunk + 1)


def test_a_chunk_meets_only_what_came_before_it() -> None:
    """The prompt's own cache is read in pieces, not at the whole context for each chunk."""
    study = inference("llama-3-70b")
    server = study.at("tpu-v5e", chips=16, batch=8, context=8192)
    found = serving_system(server, prompt=4096, answer=128).chunk(512)
    met = sum(512 * i for i in range(8)) * 327_680
    assert found.read_again == pytest.approx(met / 16 / 8.1e11, rel=0.02)
    assert found.token_time == pytest.approx(found.step_time + found.read_again / 8)
    assert found.first_token == pytest.approx(8 * found.step_time + found.read_again)


def test_chunks_behind_a_window() -> None:
    """Layers with a window read no more than it holds again: a sum without a closed form."""
    server = inference("gpt-oss-20b").at("h100", chips=1, batch=4, context=8192)
    found = serving_system(server, prompt=4096, answer=128).chunk(1024)
    kept = sum(12 * min(128, 1024 * i) + 12 * 1024 * i for i in range(4))
    assert found.read_again == pytest.approx(kept * 2 * 2 * 8 * 64 / 3.35e12, rel=0.01)


@pytest.mark.parametrize(
    ("name", "context", "state"),
    [("mamba-130m", 2048, 24 * 1536 * (16 + 3) * 4), ("llama-3-8b", 2048, 0)],
)
def test_states_of_recurrent_layers_are_sent_too(name: str, context: int, state: int) -> None:
    server = inference(name).at("h100", chips=1, batch=4, context=context)
    found = serving_system(server, prompt=1024, answer=100, link=1e9)
    keys = 0 if state else 1024 * 131_072
    assert found.cache_bytes == keys + state
    assert found.transfer is not None
    assert found.transfer.time == pytest.approx((keys + state) / 1e9)


def test_a_prefix_found_by_four_prompts_of_five() -> None:
    found = serving_system(SERVER, prompt=6000, answer=512, prefix=4500, hit=0.8).prefix_cache
    assert found is not None
    assert found.hit_rate == pytest.approx(0.8 * 4500 / 6000)
    assert found.saved_bytes == pytest.approx(4 * 4500 * 163_840)
    assert found.longest_kept == pytest.approx(found.saved_seconds * 32 * 6512 / 4500)
    data = serving_system(SERVER, prompt=6000, answer=512, prefix=4500).to_dict()
    assert data["prefix_cache"]["longest_kept_s"] > 0


def test_without_a_link_or_a_draft() -> None:
    found = serving_system(SERVER, prompt=7680, answer=512)
    data = found.to_dict()
    assert data["transfer"] is None
    assert data["drafted_tokens"] is None
    assert "seconds on the link" not in repr(found)


def test_a_large_batch_drafts_fewer_tokens() -> None:
    study = inference("llama-3-70b", weights="int8", kv="int8")
    best = []
    for batch in (8, 64, 512):
        server = study.at("tpu-v5e", chips=16, batch=batch, context=512)
        found = serving_system(server, prompt=256, answer=256, alpha=0.8).best_draft
        assert found is not None
        best.append(found.gamma)
    assert best == sorted(best, reverse=True)
    assert best[-1] == 0


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"answer": 1.5}, SymbolError, "answer = 1.5: a whole number"),
        ({"prompt": 9000}, ModelError, "prompt 9000"),
        ({"link": 0}, SymbolError, "link"),
        ({"answer": 0}, SymbolError, "answer"),
        ({"draft": 0}, SymbolError, "draft"),
        ({"prefix": 4096}, SymbolError, "the longest prefix is 4095"),
        ({"prefix": 100, "hit": 1.0}, SymbolError, "a share below 1"),
    ],
)
def test_wrong_systems(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    asked: dict[str, Any] = {"prompt": 4096, "answer": 512}
    with pytest.raises(error, match=said):
        serving_system(SERVER, **{**asked, **wrong})


# --- the sweep around a server -----------------------------------------------------------------


def test_sweep_around_a_server() -> None:
    found = explore(
        "llama-3-70b", "tpu-v5e", chips=16, batch=8, context=8192, weights="int8", kv="int8"
    )
    chips = {option.chips for option in found.sweep.options}
    assert chips == {1, 2, 4, 8, 16}
    assert [int(c) for c in found.sweep.context] == [512, 1024, 2048, 4096, 8192]
    assert found.frontier.context == 8192
    assert all(point.fits for point in found.frontier.points)
    asked = [option for option in found.sweep.options if option.name.startswith("int8, int8")]
    assert asked
    assert len(found.sweep.batch) == 512
    assert set(found.to_dict()) == {"sweep", "pareto"}
    assert "no other beats" in repr(found)


@pytest.mark.parametrize("method", ["per-op", "aggregate"])
def test_the_server_itself_is_among_the_points(method: str) -> None:
    """By its own time model, on its own mesh: no other point of the sweep is told otherwise."""
    server = inference("llama-3-70b", strategy="2d").at(
        "tpu-v5p", X=4, Y=2, batch=16, context=4096, method=method, overlap="none",
        activations="hbm", block=64,
    )  # fmt: skip
    found = explore_around(server)
    assert (found.method, found.overlap) == (method, "none")
    names = [option.name for option in found.sweep.options]
    assert names[0] == found.server.option.name == "bf16, bf16 cache, 2d, X=4, Y=2, cache by batch"
    here = next(p for p in found.sweep.points() if (p.batch, p.context) == (16, 4096))
    assert here.option == found.server.option
    assert here.step_time == pytest.approx(found.server.step_time, rel=1e-9)
    assert found.server.step_time == server.step_time
    # The mesh that was given is the only one of so many chips; fewer chips have all of theirs.
    assert {o.name.split("2d, ")[1] for o in found.sweep.options if o.chips == 8} == {
        "X=4, Y=2", "X=4, Y=2, cache by batch"
    }  # fmt: skip
    assert len({o.name.split("2d, ")[1] for o in found.sweep.options if o.chips == 4}) > 2
    better = found.better
    assert better is not None
    assert better.step_time <= server.step_time
    assert better.per_chip > found.server.per_chip


def test_sweeps_over_layouts_and_chips() -> None:
    server = inference("llama-3-8b", weights="int8").at("tpu-v5e", chips=4, batch=8, context=2048)
    found = explore_around(server, strategies=("2d", "ep"), against=("h100", "b200"))
    names = [option.name for option in found.sweep.options]
    assert len(names) == len(set(names))
    heads = {(name.split(", ")[0], name.split(", ")[3]) for name in names}
    assert heads == {(c, s) for c in ("tpu-v5e", "h100", "b200") for s in ("tp", "2d", "ep")}
    assert found.frontier.options[0].startswith("b200")
    assert "; as soon, b200" in found.said


def test_meshes_that_a_torus_cannot_have_are_left_out() -> None:
    """Three axes on a torus of two: those meshes are no options, the others are."""
    server = inference("llama-3-70b", strategy="2d").at("tpu-v5e", chips=64, batch=32, context=8192)
    found = explore_around(server)
    assert {option.chips for option in found.sweep.options} >= {16, 32, 64}
    assert not any("Z=" in o.name and "X=1" not in o.name for o in found.sweep.options)


def test_a_context_beyond_the_models_is_swept_when_asked() -> None:
    server = inference("llama-3-70b").at("h100", chips=8, batch=4, context=16384, beyond=True)
    assert explore_around(server).sweep.context.max() == 16384


def test_experts_apart() -> None:
    found = explore(
        "mixtral-8x7b", "h100", chips=2, batch=600, context=1024, weights={"experts": "fp8"}
    )
    names = {option.name.split(", ")[0] for option in found.sweep.options}
    assert names == {"experts fp8", "bf16", "int8", "int4"}
    assert found.sweep.batch.max() == 600
    # Rounding at large powers must not lose a point.
    assert (found.sweep.step_time > 0).all()


def test_chips_without_a_mesh_are_left_out() -> None:
    found = explore("llama-3-8b", "h100", chips=8, batch=1, context=1024)
    assert {option.chips for option in found.sweep.options} == {1, 2, 4, 8}
    assert halved(12, 2) == (12, 6, 3)


# --- the command line --------------------------------------------------------------------------

ASKED = (
    "serve", "llama-3-70b", "--chip", "tpu-v5e", "--chips", "16", "--batch", "32",
    "--context", "8192", "--weights", "int8", "--kv", "int8",
)  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main([*ASKED, *more, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_command_tells_of_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--prefill", "7680", "--answer", "512", "--alpha", "0.8", "--link", "25e9")
    data = run(capsys, *more)
    own = serving_system(SERVER, prompt=7680, answer=512, link=25e9, alpha=0.8).to_dict()
    assert data["system"] == own


def test_command_gives_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--want", "10000")["advice"]["wall"] == "throughput"
    assert run(capsys, "--within", "0.005")["advice"]["wall"] == "latency"
    assert "advice" not in run(capsys)
    assert main([*ASKED, "--chips", "8"]) == 0
    assert "wall:" not in capsys.readouterr().out
    assert main([*ASKED, "--chips", "8", "--batch", "64"]) == 0
    assert "wall: size" in capsys.readouterr().out


def test_command_sweeps_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = run(capsys, "--pareto", "--sweep", "-o", str(tmp_path))
    assert data["sweep"]["points"] == 512 * 5 * len(data["sweep"]["options"])
    times = [point["step_time_s"] for point in data["pareto"]["points"]]
    assert times == sorted(times)
    assert {Path(path).suffix for path in data["files"]} >= {".tex", ".html"}
    assert "<svg" in (tmp_path / "report.html").read_text("utf-8")


def test_command_tells_of_a_prefix(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--prefill", "7680", "--answer", "512", "--prefix", "6000", "--hit", "0.75")
    found = run(capsys, *more)["system"]["prefix_cache"]
    assert found["hit_rate"] == pytest.approx(0.75 * 6000 / 7680)
    assert found["saved_seconds"] > 0


def test_command_sweeps_as_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    """The mesh, time model and overlap of the table are those of the frontier and the advice."""
    more = ("--mesh", "Y=8,Z=2", "--method", "aggregate", "--overlap", "critical", "--pareto",
            "--within", "0.001")  # fmt: skip
    data = run(capsys, *more)
    front = data["pareto"]
    assert (front["method"], front["overlap"]) == ("aggregate", "critical")
    assert front["server"]["step_time_s"] == data["step_time_s"]
    assert data["advice"]["wall"] == "latency"
    assert f"a step takes {data['step_time_s']:.4g} s" in data["advice"]["advice"][0]


def test_command_sweeps_where_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    """Three mesh axes that a torus cannot have, or a context beyond the model's, are no bar."""
    one = ("serve", "llama-3-70b", "--chip", "tpu-v5e", "--chips", "64", "--batch", "32",
           "--strategy", "2d", "--pareto")  # fmt: skip
    assert main([*one]) == 0
    two = ("serve", "llama-3-8b", "--chip", "h100", "--chips", "1", "--batch", "2", "--context",
           "16384", "--beyond", "--pareto", "--against", "b200")  # fmt: skip
    assert main([*two]) == 0
    assert "as soon, b200" in capsys.readouterr().out


def test_a_report_of_what_fits_nowhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No frontier, said on standard error; the report says what to do."""
    asked = ("serve", "llama-3.1-405b", "--chip", "h100", "--chips", "1", "--batch", "1",
             "--context", "4096")  # fmt: skip
    assert main([*asked, "-o", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "no frontier in the report: no option fits" in captured.err
    assert "What to do" in (tmp_path / "report.html").read_text("utf-8")
    assert main([*asked, "--pareto"]) == 2


def test_walls_are_in_the_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--explain")["walls"]
    assert "walls" not in run(capsys)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--answer", "512"), "needs the tokens of a prompt, --prefill P"),
        (("--alpha", "0.8"), "--alpha says nothing without --answer G"),
        (("--prefill", "512", "--answer", "512", "--alpha", "1.5"), "a chance is at most 1"),
        (("--want", "0"), "tokens_per_second"),
        (("--prefill", "512", "--answer", "8", "--draft", "0.1"), "says nothing without --alpha"),
        (("--prefill", "512", "--answer", "8", "--hit", "0.5"), "says nothing without --prefix"),
        (("--prefix", "100"), "--prefix says nothing without --answer G"),
        (("--prefill", "512", "--answer", "8", "--prefix", "512"), "longest prefix is 511"),
        (("--against", "h100"), "says nothing without --sweep, --pareto or -o"),
        (("--strategies", "2d"), "says nothing without --sweep, --pareto or -o"),
        (("--pareto", "--strategies", "3d"), "unknown serving strategy '3d'"),
        (("--pareto", "--against", "h1000"), "h1000"),
    ],
)
def test_wrong_commands(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert main([*ASKED, *more]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1
