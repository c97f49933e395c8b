import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch

from nextok.errors import CheckpointError, ConfigError, TokenizerError
from nextok.interop import family_of
from nextok.interop.gguf_file import GgufFile
from nextok.interop.gguf_in import read_gguf
from nextok.interop.gguf_out import write_gguf
from nextok.model import filled
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import byte_tokenizer, char_tokenizer, train_bpe

from .gguf_peers import TEXTS, LlamaCpp, continued, weights_for

gguf = pytest.importorskip("gguf")

LLAMA = {"norm": "rmsnorm", "norm_eps": 1e-6, "position": "rope", "mlp": "swiglu"}
CONFIGS = {
    "gpt2": {},
    "gpt2 with another width inside": {"bias": False, "d_ff": 96},
    "gpt2 with a head of its own": {"tied_head": False},
    "llama": {**LLAMA, "n_kv_heads": 2, "bias": False, "tied_head": False},
    "llama with biases": {**LLAMA, "n_kv_heads": 2},
    "llama with wide heads": {**LLAMA, "d_head": 24, "bias": False, "rope_base": 50_000.0},
    "qwen3": {**LLAMA, "n_kv_heads": 1, "qk_norm": True, "bias": False, "d_head": 16},
}
BYTES = byte_tokenizer()


def config_of(name, **options):
    size = {"n_layers": 2, "d_model": 64, "n_heads": 4, "context": 128, "vocab_size": BYTES.vocab_size}
    return ModelConfig(**{**size, **CONFIGS[name], **options})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gguf"


def test_every_model_that_gguf_has_comes_back_bit_by_bit(any_config, random_weights, path):
    config = replace(any_config, vocab_size=BYTES.vocab_size)
    weights = random_weights(config)
    family, _ = family_of(config)
    if family == "nextok" or (family == "gpt2" and config.mlp != "gelu_tanh"):
        with pytest.raises(ConfigError):
            write_gguf(path, config, weights, BYTES)
        assert not path.exists()
        return
    assert write_gguf(path, config, weights, BYTES).notes == ()
    stored = read_gguf(path)
    assert stored.config == replace(config, dropout=0.0, init="gpt2", bias=family == "gpt2" or config.bias)
    for name, array in stored.arrays:
        assert np.array_equal(array, weights.pop(name, 0)), name
    assert not weights


def test_gpt2_without_biases_gets_zeros(path, random_weights):
    config = config_of("gpt2 with another width inside")
    write_gguf(path, config, random_weights(config), BYTES)
    biases = [array for name, array in read_gguf(path).arrays if name.endswith(".bias")]
    assert biases
    assert not any(array.any() for array in biases)


@pytest.mark.parametrize("precision", ["f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_numbers_are_those_of_the_package(name, precision, path, random_weights, monkeypatch):
    monkeypatch.setattr("nextok.interop.gguf_out._PIECE", 96)
    config = config_of(name)
    weights = random_weights(config)
    assert write_gguf(path, config, weights, BYTES, precision).notes == ()
    for native, array in read_gguf(path).arrays:
        flat = array.ndim == 1 or native == "embed.positions.weight"
        kind = precision.upper() if native not in ("embed.tokens.weight", "head.weight") else "Q8_0"
        kind = "F32" if flat else "F16" if precision == "f16" else kind
        kind = gguf.GGMLQuantizationType[kind]
        assert np.array_equal(array, gguf.dequantize(gguf.quantize(weights[native], kind), kind)), native


def test_the_package_reads_the_file_too(path, random_weights):
    config = config_of("llama")
    write_gguf(path, config, random_weights(config), BYTES, "q4_0")
    theirs = gguf.GGUFReader(path)
    ours = GgufFile(path)
    assert [tensor.name for tensor in theirs.tensors] == list(ours.tensors)
    for tensor in theirs.tensors:
        assert tensor.data.tobytes() == ours.read_raw(tensor.name).tobytes()
        assert tensor.data_offset % 32 == 0


def test_rows_that_are_no_whole_blocks_are_f16_and_said(path, random_weights):
    config = config_of("gpt2", d_model=40, d_ff=64)
    written = write_gguf(path, config, random_weights(config), BYTES, "q8_0")
    assert written.notes == ("7 matrices are f16: their rows of 40 numbers are no whole blocks of 32.",)
    encodings = {name: tensor.encoding.name for name, tensor in GgufFile(path).tensors.items()}
    assert encodings["blk.0.ffn_up.weight"] == "F16"
    assert encodings["blk.0.ffn_down.weight"] == "Q8_0"


def test_rows_that_only_pad_the_vocabulary_are_left_out(path, random_weights):
    config = config_of("gpt2 with a head of its own", vocab_size=BYTES.vocab_size + 7)
    weights = random_weights(config)
    write_gguf(path, config, weights, BYTES)
    stored = read_gguf(path)
    assert stored.config.vocab_size == BYTES.vocab_size
    arrays = dict(stored.arrays)
    for name in ("embed.tokens.weight", "head.weight"):
        assert np.array_equal(arrays[name], weights[name][: BYTES.vocab_size])


def test_a_stream_of_weights_is_never_held_whole(path):
    config = config_of("llama", n_layers=12, d_model=128)
    shapes = parameter_shapes(config)
    largest = 4 * max(np.prod(shape) for shape in shapes.values())
    total = 4 * sum(np.prod(shape) for shape in shapes.values())
    arrays = ((name, np.ones(shape, np.float32)) for name, shape in shapes.items())
    write_gguf(path.with_name("first.gguf"), config, arrays, BYTES)  # imports
    arrays = ((name, np.ones(shape, np.float32)) for name, shape in shapes.items())
    tracemalloc.start()
    try:
        write_gguf(path, config, arrays, BYTES, "q8_0")
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        for _ in read_gguf(path).arrays:
            pass
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    most = 4 * largest + 2_500_000  # pieces, and the tables of the tokenizer
    assert total > 2 * most
    assert writing < most
    assert reading < most


@pytest.mark.parametrize("large", [1e6, np.inf, np.nan])
def test_numbers_beyond_the_precision_are_refused_and_an_older_file_stays(large, path, random_weights):
    config = config_of("gpt2")
    weights = random_weights(config)
    weights["blocks.1.mlp.up.weight"][3, 5] = large
    path.write_bytes(b"older")
    with pytest.raises(ConfigError, match=r"blk\.1\.ffn_up\.weight holds numbers that are above 65504"):
        write_gguf(path, config, weights, BYTES, "f16")
    assert path.read_bytes() == b"older"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_what_is_missing_or_wrong_is_refused_before_anything_is_written(path, random_weights):
    config = config_of("gpt2")
    weights = random_weights(config)
    with pytest.raises(ConfigError, match="precision = 'int3'"):
        write_gguf(path, config, weights, BYTES, "int3")
    with pytest.raises(TokenizerError, match="no tokenizer"):
        write_gguf(path, config, weights, None)
    with pytest.raises(TokenizerError, match="257"):
        write_gguf(path, replace(config, vocab_size=200), weights, BYTES)
    with pytest.raises(CheckpointError, match="came where"):
        write_gguf(path, config, reversed(weights.items()), BYTES)
    del weights["final_norm.bias"]
    with pytest.raises(CheckpointError, match=r"final_norm\.bias is missing"):
        write_gguf(path, config, weights, BYTES)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize("name", CONFIGS)
def test_llama_cpp_continues_as_we_do(name, path):
    config = config_of(name)
    write_gguf(path, config, weights_for(config), BYTES)
    peer = LlamaCpp(path)
    for prompt in ("hello world", "\u00e9 \U0001f642\n"):
        assert peer.continued(prompt, 24)[0] == continued(read_gguf(path), prompt, 24)[0]


@pytest.mark.parametrize("precision", ["f16", "q8_0", "q4_0"])
def test_llama_cpp_computes_the_same_in_every_precision(precision, path):
    config = config_of("llama")
    write_gguf(path, config, weights_for(config), BYTES, precision)
    stored = read_gguf(path)
    ids_T = torch.from_numpy(stored.tokenizer.encode_prompt("hello world"))
    with torch.inference_mode():
        ours_V = filled(stored.config, stored.arrays)(ids_T[None])[0, -1].log_softmax(-1)
    for id, logprob in LlamaCpp(path).logprobs("hello world", 8).items():
        assert abs(logprob - float(ours_V[id])) < 0.25  # its kernels round the activations as well


@pytest.mark.parametrize("kind", ["char", "char, end of text", "bpe"])
def test_llama_cpp_encodes_and_continues_with_every_tokenizer_of_ours(kind, path):
    text = "".join(TEXTS)
    tokenizer = train_bpe([text * 3], 320) if kind == "bpe" else char_tokenizer([text], end_of_text="end" in kind)
    config = config_of("llama", vocab_size=tokenizer.vocab_size)
    assert write_gguf(path, config, weights_for(config), tokenizer).notes == ()
    peer = LlamaCpp(path)
    for each in TEXTS:
        assert peer.ids(each) == tokenizer.encode(each).tolist(), each
    assert peer.continued(TEXTS[1], 24)[0] == continued(read_gguf(path), TEXTS[1], 24)[0]
