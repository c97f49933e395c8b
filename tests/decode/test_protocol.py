import numpy as np

from nextok.decode import Decoder, TextSource
from nextok.tokenizer import byte_tokenizer, char_tokenizer

from .tiny import ByteTokenizer, CharTokenizer, ScriptedDecoder, TinyDecoder


def members(protocol):
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_the_protocols_ask_for_what_the_design_names_and_no_more():
    assert members(Decoder) == {
        "context", "vocab_size", "n_slots", "prefill", "step", "truncate", "copy", "release", "length",
    }  # fmt: skip
    assert members(TextSource) == {"vocab_size", "end_of_text", "stream"}


def test_what_these_tests_use_meets_the_protocols_and_so_do_the_project_s_tokenizers():
    for decoder in (TinyDecoder(), ScriptedDecoder([0], vocab_size=2)):
        assert isinstance(decoder, Decoder)
    for tokenizer in (ByteTokenizer(), CharTokenizer("ab"), byte_tokenizer(), char_tokenizer("ab", end_of_text=False)):
        assert isinstance(tokenizer, TextSource)


def test_reading_in_chunks_is_reading_at_once():
    whole, chunked = TinyDecoder(), TinyDecoder()
    ids = np.array([1, 5, 2, 7, 3])
    wanted = whole.prefill(0, ids, all_positions=True)
    chunked.prefill(0, ids[:2])
    assert np.allclose(chunked.prefill(0, ids[2:], all_positions=True), wanted[2:], atol=1e-6)
