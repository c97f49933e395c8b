"""Conversions: what comes out computes the same, and what does not is not left behind."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import nextok
from nextok.conversion import convert, export_model, import_model
from nextok.errors import CheckpointError, ConfigError, NextokError, TokenizerError
from nextok.interop import Hints, family_of, open_model, read_directory, write_directory
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer

SIZE = {"n_layers": 2, "d_model": 32, "n_heads": 2, "context": 12, "vocab_size": 257}
LLAMA = {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "bias": False, "n_kv_heads": 1}
MODELS = {
    "gpt2": ModelConfig(**SIZE),
    "llama": ModelConfig(**SIZE, **LLAMA),
    "qwen3": ModelConfig(**SIZE, **LLAMA, qk_norm=True, tied_head=False, d_head=32),
}
ALIEN = ModelConfig(**SIZE, norm_placement="after")


@pytest.fixture
def folder_of(tmp_path: Path, random_weights):
    """Returns what writes a model with random weights into a folder beside a tokenizer of bytes."""

    def write(config: ModelConfig, *, tokenizer: bool = True) -> Path:
        weights = {name: array * 0.3 for name, array in random_weights(config).items()}
        write_directory(tmp_path / "source", config, weights, byte_tokenizer() if tokenizer else None)
        return tmp_path / "source"

    return write


def logits(path: Path, vocab_size: int = 257) -> np.ndarray:
    with torch.inference_mode():
        return nextok.load(path).model(torch.tensor([list(b"It was")]))[0, :, :vocab_size].numpy()


@pytest.mark.parametrize("to", ["hf", "gguf"])
@pytest.mark.parametrize("family", MODELS)
def test_an_export_computes_the_same_and_says_so(family: str, to: str, folder_of, tmp_path: Path) -> None:
    source, out = folder_of(MODELS[family]), tmp_path / "deep" / "out"
    done = export_model(source, out, to=to)
    assert (done.source, done.path, done.format, done.precision) == (source, out, to, "f32")
    assert (done.family, done.notes, done.config) == (family, (), MODELS[family])
    assert done.comparison.max_logit_difference <= 1e-4
    assert (done.comparison.argmax_agreement, done.comparison.tokens) == (1.0, 48)
    assert done.bytes > 4 * done.parameters
    np.testing.assert_allclose(logits(out), logits(source), atol=1e-4)
    assert open_model(out).tokenizer.encode("É\n").tolist() == byte_tokenizer().encode("É\n").tolist()
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("family", MODELS)
def test_there_and_back_is_bit_for_bit(family: str, folder_of, tmp_path: Path) -> None:
    source = folder_of(MODELS[family])
    export_model(source, tmp_path / "one.gguf", to="gguf")
    import_model(tmp_path / "one.gguf", tmp_path / "back")
    for name, array in read_directory(source)[1].items():
        np.testing.assert_array_equal(read_directory(tmp_path / "back")[1][name], array, err_msg=name)


@pytest.mark.parametrize("to", ["hf", "gguf"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_padded_vocabulary_is_cut_and_its_logits_stay(to: str, tied: bool, folder_of, tmp_path: Path) -> None:
    source = folder_of(replace(MODELS["gpt2"], vocab_size=320, tied_head=tied))
    done = export_model(source, tmp_path / "out", to=to)
    assert done.config.vocab_size == 257
    assert open_model(tmp_path / "out").config.vocab_size == 257
    np.testing.assert_allclose(logits(tmp_path / "out"), logits(source), atol=1e-5)


def test_without_a_tokenizer_no_row_is_cut(folder_of, tmp_path: Path) -> None:
    source = folder_of(replace(MODELS["gpt2"], vocab_size=320), tokenizer=False)
    assert export_model(source, tmp_path / "out", to="hf").config.vocab_size == 320


@pytest.mark.parametrize(("precision", "most"), [("f16", 1e-5), ("q8_0", 1e-2), ("q4_0", 0.5)])
def test_fewer_bits_cost_what_the_conversion_says(precision: str, most: float, folder_of, tmp_path: Path) -> None:
    done = export_model(folder_of(MODELS["llama"]), tmp_path / "out.gguf", to="gguf", precision=precision)
    whole = export_model(tmp_path / "source", tmp_path / "whole.gguf", to="gguf")
    assert done.bytes < whole.bytes
    assert 0 < done.comparison.mean_kl_nats < most


@pytest.mark.parametrize("to", ["hf", "gguf"])
def test_a_model_of_no_family_is_refused_with_the_reason(to: str, folder_of, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="norm_placement = 'after'"):
        export_model(folder_of(ALIEN), tmp_path / "out", to=to)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mlp", ["gelu", "relu", "relu2"])
def test_gguf_has_one_activation_for_gpt2(mlp: str, folder_of, tmp_path: Path) -> None:
    source = folder_of(replace(MODELS["gpt2"], mlp=mlp))
    with pytest.raises(ConfigError, match=f"mlp = '{mlp}'"):
        export_model(source, tmp_path / "out.gguf", to="gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_directory_has_one_precision(folder_of, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="written in f32, not in q8_0"):
        export_model(folder_of(MODELS["gpt2"]), tmp_path / "out", to="hf", precision="q8_0")


def test_nothing_is_replaced(folder_of, tmp_path: Path) -> None:
    source = folder_of(MODELS["gpt2"])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "letter.txt").write_text("mine", "utf-8")
    (tmp_path / "file.gguf").write_text("mine", "utf-8")
    with pytest.raises(CheckpointError, match=r"already holds other files, 'letter.txt' among them. Name an empty"):
        export_model(source, tmp_path / "taken", to="hf")
    with pytest.raises(CheckpointError, match="already exists"):
        export_model(source, tmp_path / "file.gguf", to="gguf")
    with pytest.raises(CheckpointError, match="is a file, not a folder"):
        import_model(source, tmp_path / "file.gguf")
    with pytest.raises(CheckpointError, match="already holds other files"):
        import_model(source, source)
    assert (tmp_path / "file.gguf").read_text("utf-8") == (tmp_path / "taken" / "letter.txt").read_text("utf-8")
    (tmp_path / "empty").mkdir()
    assert export_model(source, tmp_path / "empty", to="hf").family == "gpt2"


@pytest.mark.parametrize("to", ["hf", "gguf"])
def test_what_computes_something_else_is_removed(
    to: str, folder_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = convert.write_model

    def spoiled(arrays: Iterator[tuple[str, np.ndarray]]) -> Iterator[tuple[str, np.ndarray]]:
        for name, array in arrays:
            yield name, array.T.copy() if name == "blocks.0.attn.out.weight" else array  # square: no shape tells

    def write(stored, *rest) -> None:
        right(replace(stored, arrays=spoiled(stored.arrays)), *rest)

    monkeypatch.setattr(convert, "write_model", write)
    with pytest.raises(NextokError, match=r"failed: its logits differ .* Nothing was left there") as caught:
        export_model(folder_of(MODELS["gpt2"]), tmp_path / "out", to=to)
    assert caught.value.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_model_without_numbers_is_not_taken_for_equal(folder_of, tmp_path: Path, random_weights) -> None:
    config = MODELS["gpt2"]
    weights = random_weights(config)
    weights["final_norm.bias"][0] = np.nan
    write_directory(tmp_path / "nan", config, weights, byte_tokenizer())
    with pytest.raises(NextokError, match="differ"):
        export_model(tmp_path / "nan", tmp_path / "out", to="hf")


def test_an_import_of_any_model_is_a_folder_that_runs(folder_of, tmp_path: Path) -> None:
    done = import_model(folder_of(ALIEN), tmp_path / "out")
    family, reason = family_of(ALIEN)
    assert (done.family, done.notes) == (family, (reason,))
    np.testing.assert_array_equal(logits(tmp_path / "out"), logits(tmp_path / "source"))


def test_an_import_takes_the_tokenizer_it_is_given(folder_of, tmp_path: Path) -> None:
    source = folder_of(MODELS["gpt2"], tokenizer=False)
    import_model(source, tmp_path / "out", tokenizer=byte_tokenizer())
    assert open_model(tmp_path / "out").tokenizer.fingerprint == byte_tokenizer().fingerprint
    small = folder_of(replace(MODELS["gpt2"], vocab_size=200), tokenizer=False)
    with pytest.raises(TokenizerError, match="embedding rows"):
        import_model(small, tmp_path / "other", tokenizer=byte_tokenizer())


def test_a_checkpoint_of_nanogpt_is_imported(tmp_path: Path, random_weights) -> None:
    from nextok.interop.names import places

    config = replace(MODELS["gpt2"], mlp="gelu")
    weights = random_weights(config)
    tensors = {
        f"transformer.{part}": torch.from_numpy(array.copy())
        for name, place in places("nanogpt", config).items()
        for part, array in place.split(weights[name] * 0.3)
    }
    args = {"n_layer": 2, "n_head": 2, "n_embd": 32, "block_size": 12, "bias": True, "vocab_size": 257, "dropout": 0.0}
    torch.save({"model": tensors, "model_args": args}, tmp_path / "ckpt.pt")
    done = import_model(tmp_path / "ckpt.pt", tmp_path / "out", hints=Hints(n_heads=2), tokenizer=byte_tokenizer())
    assert done.config == config
    np.testing.assert_allclose(
        read_directory(tmp_path / "out")[1]["blocks.1.attn.qkv.weight"], weights["blocks.1.attn.qkv.weight"] * 0.3
    )


def test_every_stage_tells_how_far_it_is(folder_of, tmp_path: Path) -> None:
    told = []
    done = export_model(folder_of(MODELS["gpt2"]), tmp_path / "out", to="hf", on_progress=told.append)
    for stage in ("read", "write", "compare"):
        amounts = [each.weights_done for each in told if each.stage == stage]
        assert amounts == sorted(amounts)
        assert amounts[-1] == done.parameters == told[0].weights_total
