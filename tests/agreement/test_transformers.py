"""Run directories against transformers, both ways: its models read here, our models loaded there."""

import json
import logging

import numpy as np
import pytest
import safetensors.torch
import torch
from torch.nn import functional as F

import nextok
from nextok.errors import CheckpointError
from nextok.interop import (
    StoredModel,
    cut_padding,
    open_model,
    read_directory,
    write_directory,
    write_stored,
)
from nextok.interop.fields import _READ_ACTIVATIONS
from nextok.model import build, weight_arrays
from nextok.spec import ModelConfig, preset_config
from nextok.tokenizer import byte_level_bpe, byte_tokenizer, char_tokenizer, train_bpe

CLOSE = 1e-5
LLAMA = {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "bias": False}
SIZE = {"n_layers": 2, "d_model": 64, "n_heads": 4, "context": 24, "vocab_size": 50}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Keeps threads from waiting for each other over matrices of 64 columns."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(name="ids_BT")
def ids():
    return torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(0))


def logits_of(model, ids_BT):
    with torch.no_grad():
        out = model(ids_BT)
    return out if isinstance(out, torch.Tensor) else out.logits


def greedy(model, ids_BT, steps=8):
    """Returns the ids with the likeliest next ones appended, by whole forward passes."""
    for _ in range(steps):
        ids_BT = torch.cat([ids_BT, logits_of(model, ids_BT)[:, -1:].argmax(-1)], dim=1)
    return ids_BT


def foreign_models(hf):
    """Yields models of every supported family as transformers makes them."""
    size = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 24, "vocab_size": 50, "bos_token_id": 0}
    size["eos_token_id"] = 0
    for activation in ("gelu_new", "gelu", "relu"):
        yield f"gpt2-{activation}", hf.GPT2LMHeadModel, hf.GPT2Config(**size, activation_function=activation)
    untied = hf.GPT2Config(**size, n_inner=40, tie_word_embeddings=False, layer_norm_epsilon=1e-3)
    yield "gpt2-untied", hf.GPT2LMHeadModel, untied
    size = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 50}
    size |= {"max_position_embeddings": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    yield "llama-gqa", hf.LlamaForCausalLM, hf.LlamaConfig(**size)
    biased = hf.LlamaConfig(**size, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    yield "llama-biases", hf.LlamaForCausalLM, biased
    rope = {"rope_type": "default", "rope_theta": 5e5}
    yield "qwen3-gqa", hf.Qwen3ForCausalLM, hf.Qwen3Config(**size, head_dim=24, rope_parameters=rope)
    tied = hf.Qwen3Config(**size, head_dim=16, tie_word_embeddings=True, rms_norm_eps=1e-4)
    yield "qwen3-tied", hf.Qwen3ForCausalLM, tied


FOREIGN = [
    "gpt2-gelu_new",
    "gpt2-gelu",
    "gpt2-relu",
    "gpt2-untied",
    "llama-gqa",
    "llama-biases",
    "qwen3-gqa",
    "qwen3-tied",
]


@pytest.fixture
def foreign(transformers, request):
    """Returns the named model, every weight random and large enough to tell right from wrong."""
    made = {name: (cls, config) for name, cls, config in foreign_models(transformers)}
    assert list(made) == FOREIGN
    cls, config = made[request.param]
    model = cls(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("foreign", FOREIGN, indirect=True)
def test_a_model_of_transformers_computes_the_same_here(foreign, ids_BT, tmp_path):
    foreign.save_pretrained(tmp_path)
    ours = nextok.load(tmp_path).model
    assert torch.allclose(logits_of(ours, ids_BT), logits_of(foreign, ids_BT), rtol=0, atol=CLOSE)
    assert torch.equal(greedy(ours, ids_BT), greedy(foreign, ids_BT))


@pytest.mark.parametrize("foreign", ["gpt2-gelu_new", "qwen3-gqa"], indirect=True)
def test_shards_of_transformers_are_read(foreign, ids_BT, tmp_path):
    foreign.save_pretrained(tmp_path, max_shard_size="50KB")
    assert not (tmp_path / "model.safetensors").exists()
    assert torch.allclose(
        logits_of(nextok.load(tmp_path).model, ids_BT), logits_of(foreign, ids_BT), rtol=0, atol=CLOSE
    )


OURS = {
    "lesson": ModelConfig(vocab_size=50, d_model=64, context=24, mlp="gelu", tied_head=False, init="torch"),
    "classic": ModelConfig(**SIZE, dropout=0.1),
    "classic-without-biases": ModelConfig(**SIZE, bias=False, d_ff=40, norm_eps=1e-3),
    "classic-relu": ModelConfig(**SIZE, mlp="relu"),
    "classic-relu2": ModelConfig(**SIZE, mlp="relu2"),
    "llama": ModelConfig(**SIZE, **LLAMA, n_kv_heads=2, rope_base=5e5),
    "llama-biases": ModelConfig(**{**SIZE, **LLAMA, "bias": True}, d_head=6, tied_head=False),
    "modern": ModelConfig(**SIZE, **LLAMA, qk_norm=True, norm_eps=1e-6),
    "modern-gqa": ModelConfig(
        **{**SIZE, "n_heads": 3}, **LLAMA, qk_norm=True, n_kv_heads=1, d_head=24, tied_head=False
    ),
}


@pytest.fixture
def ours(request):
    model = build(OURS[request.param], seed=5).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("ours", OURS, indirect=True)
def test_our_model_computes_the_same_in_transformers(ours, ids_BT, tmp_path, transformers, caplog):
    written = write_directory(tmp_path, ours.config, weight_arrays(ours))
    assert written.reason == ""
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)  # it does not propagate to the root
    try:
        theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    finally:
        logger.removeHandler(caplog.handler)
    assert not any(report.values()), report
    assert not caplog.records, caplog.text
    assert torch.allclose(logits_of(theirs, ids_BT), logits_of(ours, ids_BT), rtol=0, atol=CLOSE)
    assert torch.equal(greedy(theirs, ids_BT), greedy(ours, ids_BT))
    generated = theirs.generate(ids_BT, do_sample=False, top_k=None, max_new_tokens=8, pad_token_id=0)
    assert torch.equal(generated, greedy(ours, ids_BT))


@pytest.mark.parametrize("ours", ["classic", "classic-without-biases", "llama", "modern-gqa"], indirect=True)
def test_what_transformers_saves_of_our_model_is_still_ours(ours, tmp_path, transformers):
    write_directory(tmp_path / "a", ours.config, weight_arrays(ours))
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    config, weights = read_directory(tmp_path / "b")
    assert config == ours.config
    assert all((weights[name] == array).all() for name, array in weight_arrays(ours).items())


def test_sampling_in_transformers_is_on_and_unfiltered(tmp_path, transformers):
    model = build(OURS["classic"], seed=0)
    write_directory(tmp_path, model.config, weight_arrays(model), generation={"temperature": 0.8})
    options = transformers.GenerationConfig.from_pretrained(tmp_path)
    assert (options.do_sample, options.top_k, options.temperature) == (True, 0, 0.8)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert theirs.generate(torch.zeros(1, 2, dtype=torch.long), max_new_tokens=2, pad_token_id=0).shape == (1, 4)


TEXTS = [
    "Don't ? stop",
    "  two\n\nlines ",
    "größe 👍",
    "def f(x):\n\treturn x  # 10,000\r\n",
    "",
    " 's  ,  .",
    "e\u0301 \u00e9",
]


def gpt2s_own(shared_data):
    """Returns the vocabulary and the merges that GPT-2 was trained with."""
    vocabulary = json.loads(shared_data("gpt2_encoder.json").read_text(encoding="utf-8"))
    lines = shared_data("gpt2_vocab.bpe").read_text(encoding="utf-8").split("\n")[1:-1]
    return byte_level_bpe(vocabulary, [tuple(line.split(" ")) for line in lines], end_of_text=True)


TOKENIZERS = {
    "char": lambda _: char_tokenizer(TEXTS, end_of_text=False),
    "char-with-end": lambda _: char_tokenizer(TEXTS, end_of_text=True),
    "byte": lambda _: byte_tokenizer(),
    "bpe": lambda _: train_bpe(TEXTS * 9, 300),
    "gpt2": gpt2s_own,
}


@pytest.mark.parametrize("make", TOKENIZERS.values(), ids=TOKENIZERS)
def test_the_tokenizer_of_a_directory_gives_the_same_ids(make, tmp_path, transformers, shared_data):
    tokenizer = make(shared_data)
    config = preset_config("nano", "modern", vocab_size=tokenizer.vocab_size)
    write_directory(tmp_path, config, weight_arrays(build(config, seed=0)), tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        ids = tokenizer.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == text
    assert len(theirs) == tokenizer.vocab_size
    assert theirs.model_max_length == config.context
    assert theirs.eos_token_id == tokenizer.end_of_text


def test_a_model_without_family_is_refused_by_transformers_rather_than_misread(tmp_path, transformers):
    model = build(ModelConfig(vocab_size=9, norm_placement="after"), seed=0)
    assert write_directory(tmp_path, model.config, weight_arrays(model)).family == "nextok"
    with pytest.raises(ValueError, match="nextok"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", _READ_ACTIVATIONS)
def test_an_activation_computes_what_its_name_means_there(name, transformers):
    ours = {
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "relu": F.relu,
        "relu2": lambda x: F.relu(x) ** 2,
    }
    x = torch.linspace(-6, 6, 1001)
    theirs = transformers.activations.ACT2FN[name]
    torch.testing.assert_close(theirs(x), ours[_READ_ACTIVATIONS[name]](x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("foreign", ["gpt2-gelu_new", "gpt2-untied", "llama-gqa", "llama-biases"], indirect=True)
@pytest.mark.parametrize("stored", [True, False])
def test_a_head_tied_or_not_and_stored_or_not_is_what_transformers_makes_of_it(
    foreign, stored, ids_BT, tmp_path, transformers
):
    foreign.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    tied = foreign.config.tie_word_embeddings
    assert ("lm_head.weight" in tensors) != tied
    head = tensors.pop("lm_head.weight", foreign.get_input_embeddings().weight.detach().clone())
    safetensors.torch.save_file(tensors | ({"lm_head.weight": head} if stored else {}), path, {"format": "pt"})
    if not tied and not stored:  # transformers would draw one at random
        with pytest.raises(CheckpointError, match=r"lacks lm_head\.weight"):
            nextok.load(tmp_path)
        return
    ours, theirs = nextok.load(tmp_path).model, transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert ours.config.tied_head == tied
    torch.testing.assert_close(logits_of(ours, ids_BT), logits_of(theirs, ids_BT), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Qwen3"])
def test_the_body_alone_has_names_without_prefix_and_is_read(family, ids_BT, tmp_path, transformers):
    size = {"vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    size |= {} if family == "GPT2" else {"num_key_value_heads": 2, "intermediate_size": 96, "head_dim": 16}
    config = getattr(transformers, f"{family}Config")(
        **size, max_position_embeddings=24, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0
    )
    body = getattr(transformers, f"{family}Model")(config).eval()
    body.save_pretrained(tmp_path)
    names = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert not any(name.startswith(("transformer.", "model.")) for name in names)
    with torch.no_grad():
        expected = body(ids_BT).last_hidden_state @ body.get_input_embeddings().weight.T
    torch.testing.assert_close(logits_of(nextok.load(tmp_path).model, ids_BT), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("foreign", ["gpt2-gelu_new", "llama-gqa", "qwen3-tied"], indirect=True)
def test_a_model_saved_in_half_precision_is_widened(foreign, dtype, ids_BT, tmp_path, transformers):
    foreign.to(dtype).save_pretrained(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    torch.testing.assert_close(
        logits_of(nextok.load(tmp_path).model, ids_BT), logits_of(theirs, ids_BT), rtol=0, atol=CLOSE
    )


@pytest.mark.parametrize("tied", [True, False])
def test_a_padded_model_that_is_cut_has_the_logits_of_its_real_ids_there(tied, ids_BT, tmp_path, transformers):
    model = build(ModelConfig(**{**SIZE, "vocab_size": 64}, tied_head=tied), seed=3).eval()
    letters = char_tokenizer([chr(97 + i) for i in range(26)] + [chr(65 + i) for i in range(23)], end_of_text=True)
    stored = StoredModel(config=model.config, arrays=iter(weight_arrays(model).items()), tokenizer=letters)
    write_stored(tmp_path, cut_padding(stored, letters.vocab_size))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert theirs.config.vocab_size == len(transformers.AutoTokenizer.from_pretrained(tmp_path)) == 50
    assert theirs.get_output_embeddings().weight.shape[0] == 50
    torch.testing.assert_close(logits_of(theirs, ids_BT), logits_of(model, ids_BT)[..., :50], rtol=0, atol=CLOSE)


def in_out_and_back(config, tmp_path, transformers):
    """Checks that a random model of transformers comes back from here with every bit of every tensor."""
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    write_stored(tmp_path / "ours", open_model(tmp_path / "theirs"))
    back, report = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report.values()), report
    expected = model.state_dict()
    assert back.state_dict().keys() == expected.keys()
    for name, tensor in back.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    config, weights = read_directory(tmp_path / "theirs")
    again, weights_again = read_directory(tmp_path / "ours")
    assert again == config
    assert all(np.array_equal(weights_again[name], array) for name, array in weights.items())


@pytest.mark.parametrize("tied", [True, False])
def test_a_small_gpt2_goes_in_out_and_back_bit_for_bit(tied, tmp_path, transformers):
    size = {"n_layer": 3, "n_embd": 48, "n_head": 3, "n_positions": 11, "vocab_size": 50, "tie_word_embeddings": tied}
    in_out_and_back(transformers.GPT2Config(**size, bos_token_id=0, eos_token_id=0), tmp_path, transformers)


@pytest.mark.slow
def test_a_gpt2_of_124_million_goes_in_out_and_back_bit_for_bit(tmp_path, transformers):
    in_out_and_back(transformers.GPT2Config(), tmp_path, transformers)
