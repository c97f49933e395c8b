"""The options of a corpus refuse what cannot be meant."""

import pytest

from nextok.corpus import CorpusConfig
from nextok.errors import ConfigError


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, float("nan")])
def test_a_fraction_outside_its_range_is_refused_with_its_value(fraction):
    with pytest.raises(ConfigError, match=str(fraction)):
        CorpusConfig(val_fraction=fraction)


@pytest.mark.parametrize("encoding", ["utf-99", "base64", "rot13", ""])
def test_an_encoding_that_is_none_is_refused(encoding):
    with pytest.raises(ConfigError, match="not a text encoding"):
        CorpusConfig(encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "shift_jis"])
def test_text_encodings_are_accepted(encoding):
    assert CorpusConfig(encoding=encoding).encoding == encoding


def test_keeping_bad_bytes_needs_an_encoding_in_which_single_bytes_are_bad():
    with pytest.raises(ConfigError, match="utf-8"):
        CorpusConfig(bad_bytes="keep", encoding="utf-16")


def test_an_empty_field_name_is_refused():
    with pytest.raises(ConfigError, match="text_field"):
        CorpusConfig(text_field="")
