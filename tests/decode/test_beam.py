import warnings
from itertools import product

import numpy as np
import pytest

from nextok.decode import BeamConfig, SamplingConfig, beam_search, generate
from nextok.errors import ConfigError, PromptError

from .tiny import CharTokenizer, TinyDecoder

ABC = CharTokenizer("abcdef", ends=True)


def search(decoder, prompt=(1, 2), tokenizer=None, **options):
    return beam_search(decoder, tokenizer, prompt, BeamConfig(**options))


def logprobs_of(decoder, prompt, ids):
    """Returns the log-probability of each id after the prompt, by one whole reading."""
    logits_TV = decoder.prefill(0, np.array([*prompt, *ids]), all_positions=True).astype(np.float64)
    decoder.release(0)
    logits_TV -= np.log(np.exp(logits_TV).sum(-1, keepdims=True))
    return [logits_TV[len(prompt) - 1 + t, id] for t, id in enumerate(ids)]


def test_with_a_beam_for_every_text_it_finds_the_likeliest_of_all():
    decoder = TinyDecoder(n_slots=16, vocab_size=4)
    found = search(decoder, n_beams=16, n_best=3, max_new_tokens=3)
    every = sorted(product(range(4), repeat=3), key=lambda ids: -sum(logprobs_of(decoder, (1, 2), ids)))
    assert [beam.generation.ids for beam in found] == every[:3]
    for beam in found:
        wanted = logprobs_of(decoder, (1, 2), beam.generation.ids)
        assert beam.generation.logprobs == pytest.approx(wanted, abs=1e-5)
        assert beam.score == pytest.approx(sum(wanted) / 3, abs=1e-5)


def test_one_beam_is_greedy_decoding():
    greedy = SamplingConfig(temperature=0, max_new_tokens=5)
    for seed in range(5):
        decoder = TinyDecoder(seed=seed, vocab_size=7)
        ((wanted,),) = generate(decoder, ABC, [[1, 2]], greedy)
        (found,) = search(decoder, tokenizer=ABC, n_beams=1, max_new_tokens=5)
        assert (found.generation.ids, found.generation.text) == (wanted.ids, wanted.text)
        assert found.generation.finish_reason == wanted.finish_reason


def test_more_beams_never_find_a_worse_text_of_one_length():
    for seed in range(4):
        decoder = TinyDecoder(seed=seed, n_slots=13 * 13)
        scores = [search(decoder, n_beams=n, max_new_tokens=3)[0].score for n in (1, 13 * 13)]
        assert scores[0] <= scores[1] + 1e-6


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("n_beams", [2, 4])
def test_ids_and_scores_are_those_of_transformers(hf_model, n_beams, length_penalty, early_stopping):
    import torch

    for start in range(4):
        prompt = [start, start + 3, 7]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = hf_model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, 3),
                num_beams=n_beams,
                num_return_sequences=n_beams,
                max_new_tokens=9,
                length_penalty=length_penalty,
                early_stopping=early_stopping,
                do_sample=False,
                eos_token_id=12,
                pad_token_id=12,
                return_dict_in_generate=True,
                output_scores=True,
            )
        found = search(
            HfDecoder(hf_model, n_beams),
            prompt,
            CharTokenizer("abcdefghijkl", ends=True),
            n_beams=n_beams,
            n_best=n_beams,
            max_new_tokens=9,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
        )
        assert [beam.score for beam in found] == pytest.approx(wanted.sequences_scores.tolist(), abs=1e-4)
        for beam, row in zip(found, wanted.sequences[:, 3:].tolist(), strict=True):
            ids = list(beam.generation.ids)
            assert row == ids + [12] * (len(row) - len(ids))
        assert {beam.generation.finish_reason for beam in found} <= {"stop", "length"}


def test_the_model_of_that_comparison_ends_texts_at_many_lengths(hf_model):
    tokenizer = CharTokenizer("abcdefghijkl", ends=True)
    lengths, reasons = set(), set()
    for start in range(4):
        prompt = [start, start + 3, 7]
        for beam in search(HfDecoder(hf_model, 4), prompt, tokenizer, n_beams=4, n_best=4, max_new_tokens=9):
            lengths.add(len(beam.generation.ids))
            reasons.add(beam.generation.finish_reason)
    assert len(lengths) > 3
    assert reasons == {"stop", "length"}


def test_equal_scores_fall_to_the_better_beam_then_to_the_lowest_id():
    flat = TinyDecoder(n_slots=3)
    flat._head_DV[:] = 0
    found = search(flat, n_beams=3, n_best=3, max_new_tokens=2)
    assert [beam.generation.ids for beam in found] == [(0, 0), (0, 1), (0, 2)]


def test_end_of_text_ends_without_text_and_can_be_held_off_or_ignored():
    decoder = TinyDecoder(vocab_size=7, n_slots=4)
    plain = search(decoder, tokenizer=ABC, n_beams=4, n_best=4, max_new_tokens=5)
    ended = [beam.generation for beam in plain if beam.generation.finish_reason == "stop"]
    assert ended
    for generation in ended:
        assert generation.ids[-1] == 6 and 6 not in generation.ids[:-1]
        assert generation.text == ABC.decode(generation.ids[:-1])
    for beam in search(decoder, tokenizer=ABC, n_beams=4, n_best=4, max_new_tokens=5, min_new_tokens=4):
        assert 6 not in beam.generation.ids[:4]
    for options in ({"ignore_end": True}, {"banned_ids": (6,)}):
        for beam in search(decoder, tokenizer=ABC, n_beams=4, n_best=4, max_new_tokens=5, **options):
            assert (beam.generation.finish_reason, len(beam.generation.ids)) == ("length", 5)


def test_every_token_is_read_once_and_slots_are_left_empty():
    decoder = TinyDecoder(n_slots=5, context=12)
    search(decoder, n_beams=4, max_new_tokens=8)
    assert decoder.n_calls == {"prefill": 1, "step": 7}
    assert decoder.lengths == [0] * 5


def test_it_ends_at_the_context():
    (found,) = search(TinyDecoder(context=8), n_beams=2, max_new_tokens=50)
    assert (len(found.generation.ids), found.generation.finish_reason) == (6, "length")
    (found,) = search(TinyDecoder(context=8), [1] * 7, n_beams=2)
    assert len(found.generation.ids) == 1
    with pytest.raises(PromptError, match="8 tokens and the model's context holds 8"):
        search(TinyDecoder(context=8), [1] * 8, n_beams=2)


def test_a_small_vocabulary_gives_as_many_texts_as_there_are():
    found = search(TinyDecoder(vocab_size=2, n_slots=8), [1], n_beams=8, n_best=8, max_new_tokens=2)
    assert sorted(beam.generation.ids for beam in found) == list(product(range(2), repeat=2))


def test_rows_that_pad_the_vocabulary_are_never_found():
    decoder = TinyDecoder(vocab_size=13)
    for beam in search(decoder, tokenizer=ABC, n_beams=3, n_best=3, max_new_tokens=4):
        assert max(beam.generation.ids) <= 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_beams": 0}, "n_beams = 0"),
        ({"n_best": 0}, "n_best = 0"),
        ({"n_beams": 2, "n_best": 3}, "n_best = 3 is more than the 2 beams"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0"),
        ({"length_penalty": float("nan")}, "length_penalty = nan"),
        ({"early_stopping": "soon"}, "early_stopping = 'soon'"),
        ({"n_beams": 4}, "4 beams need as many slots, and the decoder has 3"),
        ({"n_beams": 2, "banned_ids": (13,)}, "banned_ids holds the id 13"),
    ],
)
def test_options_that_do_not_fit_are_refused_by_name(options, said):
    with pytest.raises(ConfigError, match=said):
        search(TinyDecoder(), **options)


def test_bans_that_leave_nothing_are_a_plain_error():
    with pytest.raises(PromptError, match="leave no token"):
        search(TinyDecoder(vocab_size=3), n_beams=2, banned_ids=(0, 1, 2))


class HfDecoder:
    """A model of transformers as a decoder, which reads everything anew at each call."""

    def __init__(self, model, n_slots):
        self.model, self.n_slots = model, n_slots
        self.context, self.vocab_size = model.config.n_positions, model.config.vocab_size
        self.ids = [[] for _ in range(n_slots)]

    def prefill(self, slot, ids_T, *, all_positions=False):
        self.ids[slot] += list(map(int, ids_T))
        return self._rows([slot])[0]

    def step(self, slots, ids):
        for slot, id in zip(slots, ids, strict=True):
            self.ids[slot].append(id)
        return self._rows(slots)

    def copy(self, source, target, length):
        assert self.ids[target] == self.ids[source][: len(self.ids[target])]
        self.ids[target] = self.ids[source][:length]

    def truncate(self, slot, length):
        del self.ids[slot][length:]

    def release(self, slot):
        self.ids[slot].clear()

    def length(self, slot):
        return len(self.ids[slot])

    def _rows(self, slots):
        import torch

        with torch.no_grad():
            return self.model(torch.tensor([self.ids[slot] for slot in slots])).logits[:, -1].numpy()


@pytest.fixture(scope="module")
def hf_model():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():  # of the library's own imports
        warnings.simplefilter("ignore")
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(1)
        size = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 16, "vocab_size": 13, "initializer_range": 0.6}
        model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=12, eos_token_id=12)).eval()
    with torch.no_grad():  # so that end of text is among the likely ones now and then
        model.transformer.wte.weight[12] *= 1.3
    torch.set_num_threads(1)
    return model
