"""Quantities as people write them, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import ConfigError
from nextok.units import format_bytes, format_count, format_flops, format_seconds, parse_count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("5000", 5000),
        ("007", 7),
        ("1_000", 1000),
        ("1,000", 1000),
        ("12,345,678", 12_345_678),
        ("124M", 124_000_000),
        ("124m", 124_000_000),
        ("2.5k", 2500),
        ("2.5K", 2500),
        ("1.5B", 1_500_000_000),
        ("1.5G", 1_500_000_000),
        ("1.4T", 1_400_000_000_000),
        ("3e18", 3 * 10**18),
        ("3E+18", 3 * 10**18),
        ("1e-3M", 1000),
        (" 20 M ", 20_000_000),
    ],
)
def test_counts_are_read_as_people_write_them(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["1.001k", "0.1M", "9007199254740993", "12345678901234567890", "0.000000001B"])
def test_counts_are_exact_where_a_double_is_not(text: str) -> None:
    exact = {"1.001k": 1001, "0.1M": 100_000, "0.000000001B": 1}
    assert parse_count(text) == exact.get(text, int(text) if text.isdigit() else None)


@pytest.mark.parametrize(
    "text",
    ["", " ", "-5", "+5", "many", "5X", "5MM", "M", "1e400", "1e999999999", "nan", "inf", ".5k", "1.", "1 000", "5\n6"]
    + ["1__0", "_1", "1_", "1,5M", "1,5", "1,0000", ",100", "٣", "1" * 5000],
)
def test_what_is_not_a_count_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a count") as caught:
        parse_count(text)
    assert repr(text) in caught.value.message
    assert "20M" in caught.value.hint


@pytest.mark.parametrize("text", ["2.5", "1e-5", "0.0001k"])
def test_part_of_a_thing_is_not_a_count(text: str) -> None:
    with pytest.raises(ConfigError, match="not a whole number"):
        parse_count(text)


@given(st.integers(min_value=0, max_value=10**30))
def test_digits_read_back_exactly_with_every_separator(count: int) -> None:
    assert parse_count(str(count)) == parse_count(f"{count:_}") == parse_count(f"{count:,}") == count


@given(st.integers(min_value=0, max_value=10**15))
def test_a_printed_count_reads_back_within_half_a_percent(count: int) -> None:
    printed = format_count(count)
    assert abs(parse_count(printed) - count) <= 0.005 * count
    assert format_count(parse_count(printed)) == printed


@pytest.mark.parametrize(
    ("count", "printed"),
    [
        (0, "0"),
        (950, "950"),
        (999, "999"),
        (1000, "1.00k"),
        (107_008, "107.0k"),
        (999_949, "999.9k"),
        (999_950, "1.00M"),
        (999_999, "1.00M"),
        (124_439_808, "124.4M"),
        (1_557_611_200, "1.56B"),
        (174_604_259_328, "174.6B"),
        (1.4e12, "1.40T"),
    ],
)
def test_counts_print_in_three_or_four_digits(count: float, printed: str) -> None:
    assert format_count(count) == printed


@given(st.floats(min_value=0, max_value=9.9e14))
def test_no_quantity_prints_more_than_four_digits(value: float) -> None:
    for printed in (format_count(value), format_flops(value), format_bytes(value)):
        assert sum(letter.isdigit() for letter in printed) <= (5 if "iB" in printed else 4), printed


@pytest.mark.parametrize(
    ("size", "printed"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (124_439_808 * 4, "474.7 MiB"),
        (1024**3, "1.0 GiB"),
        (3 * 1024**4, "3.0 TiB"),
        (5000 * 1024**4, "5000.0 TiB"),
    ],
)
def test_bytes_print_in_powers_of_1024(size: int, printed: str) -> None:
    assert format_bytes(size) == printed


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (0, "0.0 s"),
        (4.21, "4.2 s"),
        (59.94, "59.9 s"),
        (59.97, "1 min 00 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3599.7, "1 h 00 min"),
        (3600, "1 h 00 min"),
        (7799, "2 h 10 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_times_print_in_the_unit_that_is_read_at_a_glance(seconds: float, printed: str) -> None:
    assert format_seconds(seconds) == printed


@given(st.floats(min_value=0, max_value=1e9))
def test_no_minute_or_second_prints_as_sixty(seconds: float) -> None:
    printed = format_seconds(seconds)
    assert "60" not in printed.split(" h")[-1]
    assert " 60." not in f" {printed}"


@pytest.mark.parametrize(
    ("flops", "printed"),
    [
        (0, "0 FLOP"),
        (621_312, "621.3 kFLOP"),
        (642_048, "642.0 kFLOP"),
        (999_960_000, "1.00 GFLOP"),
        (1.86e18, "1.86 EFLOP"),
        (5.88e23, "588000.0 EFLOP"),
    ],
)
def test_operations_print_with_their_prefix(flops: float, printed: str) -> None:
    assert format_flops(flops) == printed
