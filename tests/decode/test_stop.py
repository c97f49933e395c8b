import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.decode import StopText

STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)
PIECES = st.lists(st.text("abc", max_size=5), max_size=12)


def run(stops, pieces):
    stop = StopText(stops)
    released = [stop.push(piece) for piece in pieces]
    return released + [stop.flush()], stop.found


def naive(stops, text):
    """Returns the text before the first stop and that stop, looking at the whole text once a character."""
    for end in range(1, len(text) + 1):
        starts = [(end - len(stop), stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            start, stop = min(starts)
            return text[:start], stop
    return text, None


@pytest.mark.parametrize(
    ("stops", "pieces", "released", "found"),
    [
        (["ab", "abc"], ["x", "a", "b", "c"], ["x", "", "", "", ""], "ab"),
        (["ab"], ["x", "a", "c"], ["x", "", "ac", ""], None),
        (["ab"], ["xa"], ["x", "a"], None),
        (["aab"], ["aa", "a", "b", "z"], ["", "a", "", "", ""], "aab"),
        (["\n\n"], ["one\n", "\ntwo"], ["one", "", ""], "\n\n"),
        (["b"], ["abab"], ["a", ""], "b"),
        ([], ["a", "b"], ["a", "b", ""], None),
        (["€5"], ["costs €", "5"], ["costs ", "", ""], "€5"),
        (["abc", "bc", "c"], ["abc"], ["", ""], "abc"),
        (["abcd", "bc"], ["abcd"], ["a", ""], "bc"),
    ],
)
def test_stop_texts_by_hand(stops, pieces, released, found):
    assert run(stops, pieces) == (released, found)


@given(STOPS, PIECES)
def test_what_is_released_is_the_text_before_the_first_stop_however_tokens_divide_it(stops, pieces):
    released, found = run(stops, pieces)
    text = "".join(pieces)
    assert ("".join(released), found) == naive(stops, text)
    assert run(stops, list(text))[1] == found
    assert "".join(run(stops, [text])[0]) == "".join(released)


@given(STOPS, PIECES)
def test_nothing_is_held_that_could_not_begin_a_stop(stops, pieces):
    stop, released = StopText(stops), ""
    for i, piece in enumerate(pieces):
        released += stop.push(piece)
        if stop.found is not None:
            return
        held = "".join(pieces[: i + 1])[len(released) :]
        assert held == "" or any(s.startswith(held) for s in stops)


@given(STOPS, PIECES)
def test_no_part_of_a_stop_leaks(stops, pieces):
    released, found = run(stops, pieces)
    assert all(stop not in "".join(released) for stop in stops)
