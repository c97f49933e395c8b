"""`nextok generate`: text, streams, JSON, explanations, conversations."""

import io
import json
import re
import signal
import sys
from pathlib import Path

import pytest

from nextok.cli import generate

from .conftest import Nextok

GREEDY = ["--temperature", "0", "--max-new-tokens", "10"]


def test_greedy_text_is_what_it_learned_and_the_same_in_every_form(nextok: Nextok, trained: Path) -> None:
    code, text, _ = nextok("generate", str(trained), "--prompt", "abc d", *GREEDY)
    assert code == 0
    assert text.startswith("abc d")
    assert nextok("generate", str(trained), "--prompt", "abc d", *GREEDY, "--stream")[1] == text
    explained = nextok("generate", str(trained), "--prompt", "abc d", *GREEDY, "--explain")[1]
    assert explained.rstrip().endswith(text.rstrip())
    report = json.loads(nextok("generate", str(trained), "--prompt", "abc d", *GREEDY, "--json")[1])
    assert "abc d" + report["choices"][0]["text"] + "\n" == text
    assert len(report["choices"][0]["ids"]) == len(report["choices"][0]["logprobs"]) == 10
    assert report["choices"][0]["finish_reason"] == "length"


def test_seed_decides_and_choices_differ(nextok: Nextok, trained: Path) -> None:
    draw = ["generate", str(trained), "--prompt", "a", "--temperature", "3", "--n", "2", "--max-new-tokens", "12"]
    first, again, other = nextok(*draw)[1], nextok(*draw)[1], nextok(*draw, "--seed", "1")[1]
    assert first == again != other
    assert first.count("--- ") == 2
    texts = json.loads(nextok(*draw, "--json")[1])["choices"]
    assert texts[0]["text"] != texts[1]["text"]


def test_explanation_shows_context_candidates_filters_and_choice(nextok: Nextok, trained: Path) -> None:
    arguments = ["--prompt", "abc", "--explain", "--max-new-tokens", "2", "--top-k", "3", "--top-p", "0.9"]
    code, out, _ = nextok("generate", str(trained), *arguments)
    assert code == 0
    for shown in ("position 3: reads 3 tokens: [a] [b] [c]", "the model's distribution:", "top_k", "top_p", "u = 0."):
        assert shown in out


def test_stop_text_ends_without_being_shown(nextok: Nextok, trained: Path) -> None:
    out = nextok("generate", str(trained), "--prompt", "abc d", *GREEDY, "--stop", "zz", "--stop", "ef")[1]
    assert "ef" not in out


def test_flag_of_many_values_never_swallows_the_model(nextok: Nextok, trained: Path) -> None:
    flags = ["--stop", "ef", "--banned-ids", "1", "--banned-ids", "2", "--logit-bias", "3", "0.5"]
    code, out, _ = nextok("generate", *flags, str(trained), "--prompt", "abc d", *GREEDY, "--json")
    sampling = json.loads(out)["sampling"]
    assert code == 0
    assert (sampling["stop"], sampling["banned_ids"], sampling["logit_bias"]) == (["ef"], [1, 2], [[3, 0.5]])


def test_unknown_characters_are_dropped_or_replaced_when_asked(nextok: Nextok, trained: Path) -> None:
    def prompt_ids(prompt: str, *flags: str) -> list[int]:
        out = nextok("generate", str(trained), "--prompt", prompt, *flags, *GREEDY, "--json")[1]
        return list(json.loads(out)["prompt_ids"])

    assert prompt_ids("aZbZ", "--unknown", "drop") == prompt_ids("ab")
    assert prompt_ids("aZbZ", "--unknown", "replace") == prompt_ids("a b ")
    for form in ("--stream", "--explain"):
        assert nextok("generate", str(trained), "--prompt", "aZb", "--unknown", "drop", form, *GREEDY)[0] == 0


def test_likeliest_tokens_are_printed_when_asked_for(nextok: Nextok, trained: Path) -> None:
    arguments = ["generate", str(trained), "--prompt", "abc d", *GREEDY, "--json"]
    (choice,) = json.loads(nextok(*arguments, "--top-logprobs", "2")[1])["choices"]
    assert [len(step) for step in choice["top_logprobs"]] == [2] * 10
    assert [step[0][0] for step in choice["top_logprobs"]] == choice["ids"]
    assert "top_logprobs" not in json.loads(nextok(*arguments)[1])["choices"][0]


@pytest.mark.parametrize(
    "flags", [["--explain", "--json"], ["--explain", "--stream"], ["--json", "--stream"], ["--explain", "--n", "2"]]
)
def test_flags_that_contradict_each_other_are_refused(nextok: Nextok, trained: Path, flags: list[str]) -> None:
    code, out, err = nextok("generate", str(trained), "--prompt", "abc", *flags)
    assert (code, out) == (2, "")
    assert err.startswith("nextok: ")
    assert all(flag in err for flag in flags)


def test_prompts_of_a_conversation_are_answered_one_by_one(
    nextok: Nextok, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("abc\nZ\ndef\n"))
    code, out, err = nextok("generate", str(trained), "--interactive", *GREEDY)
    assert code == 0
    assert "U+005A" in err
    assert out.count("> ") == 4


def test_prompt_can_come_from_standard_input(nextok: Nextok, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("abc d"))
    assert nextok("generate", str(trained), "--prompt", "-", *GREEDY)[1].startswith("abc d")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_standard_input_is_utf8_in_every_locale_and_stray_bytes_are_marked(
    nextok: Nextok, trained: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    for given, seen in ((b"ab\xc3\xa9", "U+00E9"), (b"ab\xff", "U+FFFD")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding=encoding, errors="strict"))
        code, _, err = nextok("generate", str(trained), "--prompt", "-")
        assert code == 2
        assert seen in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_conversation_ends_quietly_on_a_signal(
    nextok: Nextok, trained: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr("builtins.input", lambda _: signal.raise_signal(number))
    assert nextok("generate", str(trained), "--interactive", *GREEDY)[:2] == (code, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--prompt TEXT"),
        (["--prompt", "abcZ"], "U+005A"),
        (["--prompt", ""], "prompt"),
        (["--prompt", "abc", "--temperature", "nan"], "temperature"),
        (["--prompt", "abc", "--temperature", "-1"], "temperature"),
        (["--prompt", "abc", "--top-k", "-1"], "top_k"),
        (["--prompt", "abc", "--max-new-tokens", "-1"], "max_new_tokens"),
        (["--prompt", "abc def ghi jkl."], "leaves no room for 200 new ones"),
        (["--prompt", "abc def ghi jkl. abc"], "--overflow slide"),
        (["--prompt", "abc def ghi jkl. abc", "--max-new-tokens", "0"], "cannot be read whole"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(
    nextok: Nextok, trained: Path, arguments: list[str], said: str
) -> None:
    code, out, err = nextok("generate", str(trained), *arguments)
    assert code == 2
    assert said in err + out


def test_past_the_context_it_slides_when_asked(nextok: Nextok, trained: Path) -> None:
    arguments = ["--prompt", "abc def ghi jkl. abc", "--temperature", "0", "--max-new-tokens", "30"]
    for overflow in ("slide", "half"):
        code, out, _ = nextok("generate", str(trained), *arguments, "--overflow", overflow)
        assert code == 0
        assert len(out) == 20 + 30 + 1


def test_end_of_the_context_is_said_beside_the_text(nextok: Nextok, trained: Path) -> None:
    code, out, err = nextok("generate", str(trained), "--prompt", "abc", "--max-new-tokens", "100")
    assert (code, len(out)) == (0, 17)
    assert "stopped at the context of 16 tokens; --overflow slide goes on" in err
    assert nextok("generate", str(trained), "--prompt", "abc", "--max-new-tokens", "3")[2] == ""


def test_nothing_new_is_the_prompt(nextok: Nextok, trained: Path) -> None:
    for prompt in ("abc", "abc def ghi jkl."):
        assert nextok("generate", str(trained), "--prompt", prompt, "--max-new-tokens", "0")[1] == f"{prompt}\n"


def test_text_options_stay_text(nextok: Nextok, trained: Path) -> None:
    code, out, _ = nextok("generate", str(trained), "--prompt", "a", "--stop", "1+1=", "--stop", "007", *GREEDY)
    assert (code, out[:1]) == (0, "a")
    code, _, err = nextok("generate", str(trained), "--prompt=1+1=", *GREEDY)
    assert "U+0031" in err


def test_model_that_is_not_there_is_refused(nextok: Nextok, tmp_path: Path) -> None:
    code, _, err = nextok("generate", str(tmp_path / "nothing here"), "--prompt", "a")
    assert code == 2
    assert "nothing here" in err


def test_terminal_is_not_steered_by_what_a_model_writes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    generate._say("a\x1b[2Jb\x07\n")
    assert capsys.readouterr().out == "a\x1b[2Jb\x07\n"  # a file or a pipe gets every byte
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    generate._say("a\x1b[2Jb\x07\n")
    assert capsys.readouterr().out == "a\ufffd[2Jb\ufffd\n"


def test_beams_give_the_best_texts_with_their_scores(nextok: Nextok, trained: Path) -> None:
    search = ["generate", str(trained), "--prompt", "abc d", "--max-new-tokens", "8", "--beams", "3"]
    code, out, _ = nextok(*search, "--n", "2")
    assert code == 0
    assert out.count("--- ") == 2
    choices = json.loads(nextok(*search, "--n", "2", "--json")[1])["choices"]
    assert choices[0]["score"] >= choices[1]["score"]
    assert f"abc d{choices[0]['text']}\n" in out
    assert choices[0]["score"] == pytest.approx(sum(choices[0]["logprobs"]) / 8)


@pytest.mark.parametrize(
    "flags",
    [["--stream"], ["--explain"], ["--speculate", "ngram"], ["--top-k", "3"], ["--stop", "a"], ["--regex", "a"]],
)
def test_beams_refuse_what_has_no_meaning_for_them(nextok: Nextok, trained: Path, flags: list[str]) -> None:
    code, out, err = nextok("generate", str(trained), "--prompt", "abc", "--beams", "2", *flags)
    assert (code, out) == (2, "")
    assert f"--beams does not go with {flags[0]}." in err


def test_numbers_of_beams_out_of_range_are_refused(nextok: Nextok, trained: Path) -> None:
    prompt = ["generate", str(trained), "--prompt", "abc"]
    assert "beams = -1" in nextok(*prompt, "--beams", "-1")[2]
    assert "n_best = 3 is more than the 2 beams" in nextok(*prompt, "--beams", "2", "--n", "3")[2]


def test_guessing_ahead_prints_the_same_text(nextok: Nextok, trained: Path) -> None:
    draw = ["generate", str(trained), "--prompt", "abc d", "--overflow", "half", "--max-new-tokens", "30", "--n", "2"]
    for form in ([], ["--stream"]):
        plain = nextok(*draw, *form)[1]
        for guesser in ("ngram", str(trained)):
            assert nextok(*draw, *form, "--speculate", guesser)[1] == plain
    assert nextok(*draw, "--speculate", "no-such-model")[0] == 2


def test_text_follows_an_expression_or_a_schema(nextok: Nextok, trained: Path, tmp_path: Path) -> None:
    prompt = ["generate", str(trained), "--prompt", "abc"]
    code, out, _ = nextok(*prompt, "--regex", "(gh|jk){3}")
    assert code == 0
    assert re.fullmatch("abc(gh|jk){3}\n", out)
    code, _, err = nextok(*prompt, "--regex", "[0-9]+")
    assert code == 2
    assert "cannot spell any text of the regular expression" in err
    schema = tmp_path / "schema.json"
    for given, said in (("schema.json", "Cannot read the JSON schema schema.json"), ("{}", "cannot spell")):
        code, _, err = nextok(*prompt, "--json-schema", given)
        assert code == 2
        assert said in err
    schema.write_text('{"type": "integer"}', encoding="utf-8")
    assert "cannot spell" in nextok(*prompt, "--json-schema", "schema.json")[2]
    schema.write_bytes(b"\xff")
    assert "it is not UTF-8" in nextok(*prompt, "--json-schema", "schema.json")[2]
