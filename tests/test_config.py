"""Options from files, flags and JSON: one way in, nothing guessed, nothing executed."""

import dataclasses
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok import files
from nextok.config import (
    describe_type,
    field_types,
    from_mapping,
    merge,
    parse_sets,
    parse_text,
    read_toml,
    to_mapping,
    unknown_name,
)
from nextok.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    rate: float = 0.1
    name: str = "adam"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    steps: int = 100
    seed: int | None = None
    rate: float = 1e-3
    tied: bool = True
    prompt: str = ""
    kind: Literal["gelu", "relu"] = "gelu"
    level: Literal[1, 2] = 1
    out: Path = Path("runs")
    log: Path | None = None
    note: str | None = None
    stops: tuple[str, ...] = ()
    betas: tuple[float, float] = (0.9, 0.95)
    bias: tuple[tuple[int, float], ...] = ()
    noted: Annotated[int, "a note for the flag parser"] = 0
    inner: Inner = field(default_factory=Inner)
    extra: Inner | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Needy:
    source: str
    inner: Inner
    count: int = 1


def test_values_land_in_their_fields_nested_ones_too() -> None:
    made = from_mapping(Options, {"steps": 5, "inner": {"rate": 0.5}, "extra": {"name": "sgd"}, "log": "a/b"})
    expected = Options(steps=5, inner=Inner(rate=0.5), extra=Inner(name="sgd"), log=Path("a/b"))
    assert made == expected


def test_no_values_are_the_defaults() -> None:
    assert from_mapping(Options, {}) == Options()


def test_lists_become_tuples_of_checked_items() -> None:
    made = from_mapping(Options, {"stops": ["a", "b"], "betas": [1, 0.5], "bias": [[5, 1.5], [7, -2]]})
    assert (made.stops, made.betas, made.bias) == (("a", "b"), (1.0, 0.5), ((5, 1.5), (7, -2.0)))


def test_a_whole_number_is_a_number_and_arrives_as_a_float() -> None:
    rate = from_mapping(Options, {"rate": 2}).rate
    assert (rate, type(rate)) == (2.0, float)


def test_an_optional_value_may_be_none_and_others_may_not() -> None:
    assert from_mapping(Options, {"seed": None, "extra": None}).seed is None
    with pytest.raises(ConfigError, match=r"steps = None is not a whole number\."):
        from_mapping(Options, {"steps": None})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"steps": "5"}, "steps = '5' is not a whole number."),
        ({"steps": 5.0}, "steps = 5.0 is not a whole number."),
        ({"steps": True}, "steps = True is not a whole number."),
        ({"rate": "fast"}, "rate = 'fast' is not a number."),
        ({"rate": False}, "rate = False is not a number."),
        ({"seed": "x"}, "seed = 'x' is not a whole number or none."),
        ({"tied": 1}, "tied = 1 is not true or false."),
        ({"prompt": 7}, "prompt = 7 is not text."),
        ({"kind": "silu"}, "kind = 'silu' is not one of gelu, relu."),
        ({"level": True}, "level = True is not one of 1, 2."),
        ({"level": 1.0}, "level = 1.0 is not one of 1, 2."),
        ({"kind": ["gelu"]}, "kind = ['gelu'] is not one of gelu, relu."),
        ({"out": 3}, "out = 3 is not a path."),
        ({"stops": "ab"}, "stops = 'ab' is not a list."),
        ({"stops": ["a", 1]}, "stops[1] = 1 is not text."),
        ({"betas": [0.9]}, "betas has 1 values; it takes 2."),
        ({"betas": [0.9, 0.95, 0.99]}, "betas has 3 values; it takes 2."),
        ({"bias": [[5, 1.5], ["x", 2]]}, "bias[1][0] = 'x' is not a whole number."),
        ({"inner": {"rate": "x"}}, "inner.rate = 'x' is not a number."),
        ({"inner": 5}, "inner = 5 is not a table of options."),
        ({"extra": []}, "extra = [] is not a table of options or none."),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place_and_what_is_needed(values: dict, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Options, values)
    assert caught.value.message == said


def test_a_whole_number_beyond_every_double_is_not_a_number() -> None:
    with pytest.raises(ConfigError, match="rate = 1000"):
        from_mapping(Options, {"rate": 10**400})


@pytest.mark.parametrize("values", [[], "text", 5, None])
def test_what_is_no_table_is_refused_as_such(values: Any) -> None:
    with pytest.raises(ConfigError, match="Options = .* is not a table of options"):
        from_mapping(Options, values)


@pytest.mark.parametrize(
    ("values", "message", "hint"),
    [
        ({"step": 1}, "Unknown option 'step'.", "Did you mean 'steps'?"),
        ({"inner": {"nmae": "x"}}, "Unknown option 'nmae' in inner.", "Did you mean 'name'?"),
        ({"extra": {"zzz": 1}}, "Unknown option 'zzz' in extra.", "Known names: name, rate."),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(values: dict, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Options, values)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_missing_values_are_named_all_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Needy, {"count": 3})
    assert caught.value.message == "Needy has no value for source, inner."
    with pytest.raises(ConfigError, match="model has no value for source"):
        from_mapping(Needy, {"inner": {}}, "model")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
inners = st.builds(Inner, rate=numbers, name=texts)
all_options = st.builds(
    Options,
    steps=st.integers(),
    seed=st.none() | st.integers(),
    rate=numbers,
    tied=st.booleans(),
    prompt=texts,
    kind=st.sampled_from(["gelu", "relu"]),
    level=st.sampled_from([1, 2]),
    log=st.none() | st.just(Path("a") / "b"),
    stops=st.lists(texts, max_size=3).map(tuple),
    betas=st.tuples(numbers, numbers),
    bias=st.lists(st.tuples(st.integers(), numbers), max_size=3).map(tuple),
    inner=inners,
    extra=st.none() | inners,
)


@given(all_options)
def test_options_come_back_from_plain_values_and_from_json_as_they_were(options: Options) -> None:
    plain = to_mapping(options)
    assert from_mapping(Options, plain) == options
    assert from_mapping(Options, files.from_json(files.to_json(plain))) == options


def test_plain_values_hold_nothing_but_plain_types() -> None:
    plain = to_mapping(Options(bias=((1, 2.0),), log=Path("a") / "b", extra=Inner()))
    assert plain["bias"] == [[1, 2.0]]
    assert plain["log"] == str(Path("a") / "b")
    assert plain["extra"] == {"rate": 0.1, "name": "adam"}


@pytest.mark.parametrize(
    ("assignment", "values"),
    [
        ("prompt=1+1=", {"prompt": "1+1="}),
        ("prompt==", {"prompt": "="}),
        ("prompt=007", {"prompt": "007"}),
        ("prompt=1e5", {"prompt": "1e5"}),
        ("prompt=none", {"prompt": "none"}),
        ("prompt=true", {"prompt": "true"}),
        ("note=none", {"note": "none"}),
        ("prompt=", {"prompt": ""}),
        ("prompt= two words ", {"prompt": " two words "}),
        ("steps=007", {"steps": 7}),
        ("steps=-3", {"steps": -3}),
        ("noted=4", {"noted": 4}),
        ("rate=1e-5", {"rate": 1e-5}),
        ("rate=3", {"rate": 3.0}),
        ("seed=none", {"seed": None}),
        ("seed=None", {"seed": None}),
        ("seed=5", {"seed": 5}),
        ("tied=false", {"tied": False}),
        ("tied=True", {"tied": True}),
        ("kind=relu", {"kind": "relu"}),
        ("out=a=b/c", {"out": Path("a=b/c")}),
        ("log=null", {"log": None}),
        ('stops=["a", "b"]', {"stops": ("a", "b")}),
        ("stops=[]", {"stops": ()}),
        ("betas=[0.5, 1]", {"betas": (0.5, 1.0)}),
        ("bias=[[5, 1.5]]", {"bias": ((5, 1.5),)}),
        ("inner.rate=2", {"inner": {"rate": 2.0}}),
        ("extra.name=sgd", {"extra": {"name": "sgd"}}),
    ],
)
def test_an_assignment_is_read_by_the_type_of_its_field(assignment: str, values: dict) -> None:
    parsed = parse_sets(Options, [assignment])
    assert parsed == values
    assert [type(value) for value in parsed.values()] == [type(value) for value in values.values()]
    from_mapping(Options, parsed)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("steps", "--set steps has no value. Write --set name=value."),
        ("", "--set  has no value. Write --set name=value."),
        ("steps=1e5", "steps = '1e5' is not a whole number."),
        ("steps=", "steps = '' is not a whole number."),
        ("steps=none", "steps = 'none' is not a whole number."),
        ("seed=many", "seed = 'many' is not a whole number or none."),
        ("tied=1", "tied = '1' is not true or false."),
        ("kind=silu", "kind = 'silu' is not one of gelu, relu."),
        ("stops=a,b", 'stops = \'a,b\' is not a list. Write it as in a TOML file: ["a", "b"].'),
        ("stops=[1]", "stops[0] = 1 is not text."),
        ("stops=" + "[" * 10_000, "stops = '[[["),
        ("betas=[1]", "betas has 1 values; it takes 2."),
        ("inner=5", "inner = '5' is not a table of options."),
        ("inner.nmae=5", "Unknown option 'nmae' in inner. Did you mean 'name'?"),
        ("seeed=5", "Unknown option 'seeed'. Did you mean 'seed'?"),
        ("steps.more=5", "steps is a single value; steps.more names something inside it."),
        ("=5", "Unknown option ''. Known names:"),
        ("inner.=5", "Unknown option '' in inner. Known names: name, rate."),
    ],
)
def test_an_assignment_that_does_not_fit_says_why(assignment: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sets(Options, [assignment])
    assert str(caught.value).startswith(said)


def test_assignments_to_one_table_gather_and_the_later_counts() -> None:
    parsed = parse_sets(Options, ["inner.rate=1", "inner.name=sgd", "inner.rate=2", "steps=3", "steps=4"])
    assert parsed == {"inner": {"rate": 2.0, "name": "sgd"}, "steps": 4}


def test_a_table_set_to_none_can_be_filled_by_a_later_assignment_and_back() -> None:
    assert parse_sets(Options, ["extra=none", "extra.rate=1"]) == {"extra": {"rate": 1.0}}
    assert parse_sets(Options, ["extra.rate=1", "extra=none"]) == {"extra": None}


@given(st.text(max_size=20))
def test_a_text_option_keeps_any_text(text: str) -> None:
    assert parse_sets(Options, [f"prompt={text}"]) == {"prompt": text}
    assert parse_text(text, str, "prompt") == text


def test_merging_goes_table_by_table_and_changes_neither_side() -> None:
    base = {"a": 1, "t": {"x": 1, "y": {"z": 1}}, "u": {"x": 1}}
    over = {"b": 2, "t": {"y": {"w": 2}}, "u": 5}
    assert merge(base, over) == {"a": 1, "b": 2, "t": {"x": 1, "y": {"z": 1, "w": 2}}, "u": 5}
    assert base == {"a": 1, "t": {"x": 1, "y": {"z": 1}}, "u": {"x": 1}}
    assert over == {"b": 2, "t": {"y": {"w": 2}}, "u": 5}


def test_a_single_value_gives_way_to_a_table() -> None:
    assert merge({"t": 1}, {"t": {"x": 2}}) == {"t": {"x": 2}}


@pytest.mark.parametrize(
    "content",
    [b'prompt = "\xe2\x80\x99"\nsteps = 3\n', b'\xef\xbb\xbfprompt = "\xe2\x80\x99"\r\nsteps = 3\r\n'],
    ids=["plain", "byte-order mark and CRLF"],
)
def test_a_toml_file_is_read_as_utf_8(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    assert read_toml(path) == {"prompt": "’", "steps": 3}


@pytest.mark.parametrize(
    "content",
    [
        b"steps = ",
        b'prompt = "\xb4\xf2"',
        b"a = 1\na = 2",
        b"a = " + b"[" * 50_000,
        b"a = " + b"1" * 5_000,
        b"__import__('os').system('true')",
    ],
    ids=["cut", "GBK bytes", "twice", "10,000s of brackets", "5,000 digits", "code"],
)
def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.toml is not valid TOML"):
        read_toml(path)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read the options file .*none\.toml: No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="Cannot read the options file"):
        read_toml(tmp_path)


def test_a_toml_file_is_read_as_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes('prompt = "’語"'.encode())
    program = (
        "import locale, pathlib, sys; from nextok.config import read_toml\n"
        "print(locale.getpreferredencoding(False)); print(ascii(read_toml(pathlib.Path(sys.argv[1]))['prompt']))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True, encoding="ascii")
    encoding, prompt = done.stdout.split()
    assert encoding.lower().replace("-", "") != "utf8", "this machine cannot show a locale that is not UTF-8"
    assert prompt == ascii("’語")


def test_unknown_names_list_the_known_ones_where_none_is_near() -> None:
    assert unknown_name("qqq", ["beta", "alpha"]).hint == "Known names: alpha, beta."
    assert unknown_name("alhpa", ["beta", "alpha"], "model").message == "Unknown option 'alhpa' in model."


def test_every_field_has_its_resolved_type() -> None:
    types = field_types(Options)
    assert list(types) == [each.name for each in dataclasses.fields(Options)]
    assert types["noted"] is int


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "a whole number"),
        (float, "a number"),
        (bool, "true or false"),
        (str, "text"),
        (Path, "a path"),
        (int | None, "a whole number or none"),
        (Literal["a", "b"], "one of a, b"),
        (Literal["a"] | None, "one of a or none"),
        (tuple[str, ...], "a list"),
        (Inner, "a table of options"),
        (Annotated[int, "x"], "a whole number"),
    ],
)
def test_types_are_told_in_words(kind: Any, words: str) -> None:
    assert describe_type(kind) == words


def test_a_name_that_stands_in_a_table_is_found_there() -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_sets(Options, ["name=sgd"])
    assert str(wrong.value) == "Unknown option 'name'. Did you mean inner.name?"
