"""Starting from a model: all of its weights, its tokenizer, its loss before the first step, and resuming without it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nextok
from nextok.checkpoint import RunDirectory, load_snapshot, read_metrics, read_weights, saved_steps
from nextok.config import from_mapping
from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.interop import open_model, write_directory
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer
from nextok.train import RunOptions, RunResult, resume, run, run_options, saved_options
from nextok.train.source import BASE_NAME, open_source, take_weights

MakeOptions = Callable[..., RunOptions]


def go(options: RunOptions, **extra: Any) -> RunResult:
    return run(options, cache=options.out.parent / "cache", **extra)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A model with bytes for tokens, so that any text can follow."""
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=16, vocab_size=260)
    write_directory(tmp_path / "base", config, weight_arrays(build(config, 3)), byte_tokenizer())
    return tmp_path / "base"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    lines = [json.dumps({"prompt": f"{n} and {n}: ", "completion": f"{2 * n}\n"}) for n in range(60)]
    path = tmp_path / "sums.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def further(base: Path, pairs: Path, tmp_path: Path) -> Callable[..., RunOptions]:
    """Returns options of a tiny run that starts from the base."""

    def make(out: str = "further", *, train: dict[str, Any] | None = None, **values: Any) -> RunOptions:
        usual = {"batch_size": 4, "sample_tokens": 0, "log_every_steps": 1, "threads": 1, "lr": 0.01}
        settings = usual | (train or {})
        places = {"sources": (str(pairs),), "out": str(tmp_path / out), "init_from": str(base)}
        return run_options({**places, "steps": 8, "train": settings, **values})

    return make


LORA = {"lora": 4, "lora_alpha": 8.0}


@pytest.mark.parametrize("extra", [{}, LORA], ids=["whole", "adapters"])
def test_step_zero_is_the_source_and_its_loss_is_told(further: MakeOptions, base: Path, extra: dict[str, Any]) -> None:
    options = further(**extra, train={"lr": 1e-30, "warmup_steps": 0})
    go(options)
    first, *_ = read_metrics(RunDirectory(options.out).metrics)
    assert first.keys() == {"step", "tokens", "epoch", "seconds", "val_loss", "val_bits_per_byte"}
    assert first["step"] == 0
    text = "12 and 12: 24"
    np.testing.assert_allclose(nextok.load(options.out).logits(text), nextok.load(base).logits(text), atol=1e-6)
    about = RunDirectory(options.out).read_run()["init_from"]
    assert about["path"] == str(base)
    assert len(about["weights"]) == 64
    assert about["tokenizer"] == byte_tokenizer().fingerprint


def test_fingerprint_is_that_of_the_weights_not_of_the_files(further: MakeOptions, base: Path, tmp_path: Path) -> None:
    _, one = take_weights(open_source(further(), tmp_path))
    _, again = take_weights(open_source(further(), tmp_path))
    assert one == again
    config = open_model(base).config
    write_directory(base, config, weight_arrays(build(config, 4)), byte_tokenizer())
    assert take_weights(open_source(further(), tmp_path))[1] != one


@pytest.mark.parametrize("extra", [{}, LORA], ids=["whole", "adapters"])
def test_a_run_goes_on_to_the_bit_when_its_source_is_gone(
    further: MakeOptions, base: Path, extra: dict[str, Any]
) -> None:
    whole = further("whole", **extra, model={"dropout": 0.2})
    go(whole)
    paused = further("paused", **extra, model={"dropout": 0.2}, train={"pause_after_steps": 3})
    assert go(paused).step == 3
    shutil.rmtree(base)
    assert resume(saved_options(paused.out)).step == 8
    snapshots = [load_snapshot(RunDirectory(options.out))[0] for options in (whole, paused)]
    assert snapshots[0].arrays.keys() == {"weights", "optimizer"}
    for group, arrays in snapshots[0].arrays.items():
        other = snapshots[1].arrays[group]
        assert arrays.keys() == other.keys()
        assert all(np.array_equal(arrays[name], other[name]) for name in arrays)
    weights = [read_weights(RunDirectory(options.out).weights) for options in (whole, paused)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_adapters_alone_are_in_checkpoints_and_the_merged_model_is_what_every_command_reads(
    further: MakeOptions, base: Path
) -> None:
    options = further(**LORA, train={"eval_every_steps": 1, "lr": 0.1})
    said: list[str] = []
    result = go(options, hooks=[lambda event: said.append(getattr(event, "text", ""))])
    # rank 4 x (in + out) of qkv 16 -> 48, out 16 -> 16, up 16 -> 64, down 64 -> 16
    assert any("Adapters of rank 4: 1,024 parameters are trained" in text for text in said)
    last = load_snapshot(RunDirectory(options.out))[0]
    assert sum(array.size for array in last.arrays["weights"].values()) == 1024
    assert sum(array.size for array in last.arrays["optimizer"].values()) == 2048
    assert result.best_val_loss is not None
    losses = [row["val_loss"] for row in read_metrics(RunDirectory(options.out).metrics)]
    assert result.best_val_loss < losses[0]
    loaded = nextok.load(options.out, backend="torch")
    assert loaded.generate("3 and 3: ", max_new_tokens=4, temperature=0, overflow="slide").text
    assert not np.allclose(loaded.logits("3 and 3: "), nextok.load(base).logits("3 and 3: "), atol=1e-2)
    assert (options.out / "adapter" / "adapter_model.safetensors").is_file()
    np.testing.assert_array_equal(
        read_weights(options.out / BASE_NAME)["embed.tokens.weight"],
        read_weights(RunDirectory(base).weights)["transformer.wte.weight"],
    )


def test_a_run_of_adapters_is_refused_without_its_base_or_its_first_checkpoint(further: MakeOptions) -> None:
    options = further(**LORA, train={"pause_after_steps": 2})
    go(options)
    (options.out / BASE_NAME).write_bytes((options.out / BASE_NAME).read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(CheckpointError, match="is not what this run was started with"):
        resume(saved_options(options.out))
    whole = further("whole", train={"pause_after_steps": 2})
    go(whole)
    shutil.rmtree(RunDirectory(whole.out).checkpoints)
    with pytest.raises(CheckpointError, match="ended before it had saved the model it starts from"):
        resume(saved_options(whole.out))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"model": {"n_layers": 2}}, "n_layers = 2 contradicts .*base, where it is 1"),
        ({"model": {"mlp": "relu"}}, "mlp = 'relu' contradicts"),
        ({"model": {"context": 32}}, "context = 32 contradicts .* It can be shorter, not longer"),
        ({"preset": "nano"}, "preset = 'nano' and init_from"),
        ({"tokenizer": "char"}, "tokenizer = 'char' contradicts"),
        ({"lora": 32}, "lora = 32 is above 16"),
        ({"lora": -1}, "lora = -1 is negative"),
    ],
)
def test_what_contradicts_the_source_is_refused_and_nothing_is_left(
    further: MakeOptions, tmp_path: Path, extra: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        go(further(**extra))
    assert not (tmp_path / "further").exists()


def test_adapters_need_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="adapters need a model to adapt: add --init-from MODEL"):
        run_options({"lora": 8})


def test_dropout_is_the_runs_own_and_the_context_may_be_shorter(further: MakeOptions, base: Path) -> None:
    options = further(model={"dropout": 0.5, "context": 8}, train={"lr": 1e-30})
    go(options)
    config = from_mapping(ModelConfig, RunDirectory(options.out).read_run()["model"])
    assert (config.dropout, config.context, config.vocab_size) == (0.5, 8, 260)
    np.testing.assert_allclose(nextok.load(options.out).logits("12 and"), nextok.load(base).logits("12 and"), atol=1e-6)


def test_settings_are_milder_unless_a_recipe_or_a_rate_is_named(base: Path) -> None:
    def settings(**values: Any) -> tuple[float, int]:
        train = run_options({"init_from": str(base), **values}).train
        return train.lr, train.warmup_steps

    assert settings() == (pytest.approx(1e-4), 20)
    assert settings(lora=4) == (1e-3, 20)
    assert settings(train={"lr": 0.5}) == (0.5, 20)
    assert settings(recipe="classic") == (1e-3, 100)
    assert run_options({"init_from": str(base)}).recipe == "classic"


def test_a_source_without_a_tokenizer_needs_a_fixed_one(base: Path, further: MakeOptions) -> None:
    (base / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match="has no tokenizer"):
        go(further())
    with pytest.raises(TokenizerError, match="would give tokens other numbers"):
        go(further(tokenizer="bpe:300"))
    assert go(further(tokenizer="byte")).step == 8


def test_a_prepared_corpus_needs_the_tokenizer_of_the_source(
    further: MakeOptions, make_options: MakeOptions, tmp_path: Path
) -> None:
    other = go(make_options("other", steps=1))  # characters
    with pytest.raises(TokenizerError, match="has another tokenizer than"):
        go(further(sources=(str(other.path / "corpus"),)))
    first = go(further("first"))
    assert go(further("second", sources=(str(first.path / "corpus"),))).step == 8


def test_from_a_run_directory_the_options_of_the_model_follow(make_options: MakeOptions, tmp_path: Path) -> None:
    first = go(make_options("first", steps=2))
    options = make_options("second", steps=2)
    again = run_options(
        {"sources": options.sources, "out": str(options.out), "init_from": str(first.path), "steps": 2,
         "train": {"sample_tokens": 0, "batch_size": 4, "threads": 1}}
    )  # fmt: skip
    assert (again.model.n_layers, again.model.d_model, again.tokenizer) == (1, 16, str(first.path))
    go(again)
    assert saved_steps(RunDirectory(again.out)) == [0, 2]
    rows = [read_metrics(RunDirectory(path).metrics) for path in (first.path, again.out)]
    assert rows[1][0]["val_loss"] == pytest.approx(rows[0][-1]["val_loss"], rel=1e-6)  # same text, same model


@pytest.mark.filterwarnings("ignore")
def test_from_a_directory_of_transformers_every_logit_is_theirs(
    further: MakeOptions, base: Path, tmp_path: Path
) -> None:
    import transformers

    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 260, "resid_pdrop": 0.0}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, embd_pdrop=0.0, attn_pdrop=0.0)).eval()
    shutil.rmtree(base)
    theirs.save_pretrained(base)
    byte_tokenizer().save(base / "tokenizer.json")
    model, _ = take_weights(open_source(further(), tmp_path))
    ids_BT = torch.arange(16)[None]
    with torch.no_grad():
        torch.testing.assert_close(model(ids_BT), theirs(ids_BT).logits, atol=1e-5, rtol=1e-5)


def test_batches_of_prompts_alone_have_no_loss_and_break_nothing(further: MakeOptions, tmp_path: Path) -> None:
    lines = [json.dumps({"prompt": "x" * 400, "completion": "y"}) for _ in range(4)]
    (tmp_path / "long.jsonl").write_text("\n".join(lines), encoding="utf-8")
    options = further(sources=(str(tmp_path / "long.jsonl"),), train={"batch_size": 1})
    go(options)
    losses = [row["train_loss"] for row in read_metrics(RunDirectory(options.out).metrics)[1:]]
    assert None in losses
    assert all(loss is None or loss > 0 for loss in losses)
