import pytest

from nextok.errors import CheckpointError
from nextok.interop.typed_json import TypedJson


@pytest.fixture
def fields(tmp_path):
    return TypedJson({"n": 3, "x": 0.5, "on": True, "name": "a", "none": None, "table": {"y": 1}}, tmp_path / "c.json")


def test_values_come_out_by_type(fields):
    assert (fields.whole("n"), fields.number("x"), fields.number("n")) == (3, 0.5, 3.0)
    assert fields.switch("on", default=False) is True
    assert (fields.text("name"), fields.table("table")) == ("a", {"y": 1})


def test_null_counts_as_absent(fields):
    assert fields.whole("none", 7) == fields.whole("absent", 7) == 7
    with pytest.raises(CheckpointError, match=r"c\.json has no none"):
        fields.whole("none")


@pytest.mark.parametrize(
    ("kind", "name"), [("whole", "on"), ("whole", "x"), ("number", "name"), ("text", "n"), ("table", "n")]
)
def test_a_value_of_another_type_is_refused_by_name(fields, kind, name):
    with pytest.raises(CheckpointError, match=rf"c\.json has {name} = .*which is not"):
        getattr(fields, kind)(name)


def test_a_switch_is_no_number(fields):
    with pytest.raises(CheckpointError, match="n = 3, which is not true or false"):
        fields.switch("n", default=False)


def test_a_required_value_is_refused_with_the_reason(fields):
    assert fields.require("n", (3, 4), "it is odd") == 3
    assert fields.require("absent", (1,), "it is one", default=1) == 1
    with pytest.raises(CheckpointError, match=r"c\.json has n = 3; in nextok it is even, so it has to be 2 or 4"):
        fields.require("n", (2, 4), "it is even")


def test_true_is_not_one(fields):
    with pytest.raises(CheckpointError, match="on = True"):
        fields.require("on", (1.0,), "it is one")


@pytest.mark.parametrize("value", [["a", "b"], "a b", 3])
def test_a_list_with_anything_else_is_refused(tmp_path, value):
    with pytest.raises(CheckpointError, match="it has to be a"):
        TypedJson({"list": value}, tmp_path).require_all("list", "a", "there is one kind")


def test_a_list_of_the_allowed_value_or_none_passes(tmp_path):
    TypedJson({"list": ["a", "a"]}, tmp_path).require_all("list", "a", "there is one kind")
    TypedJson({}, tmp_path).require_all("list", "a", "there is one kind")


def test_a_huge_value_is_cut_in_the_message(tmp_path):
    assert len(str(TypedJson({}, tmp_path).refused("name", "x" * 10_000, "it is small"))) < 500


@pytest.mark.parametrize(
    ("content", "told"), [("[]", "not a JSON object"), ("{", "not valid JSON"), ('{"a": NaN}', "NaN")]
)
def test_a_file_that_is_no_object_is_refused(tmp_path, content, told):
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=told):
        TypedJson.read(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="Cannot read"):
        TypedJson.read(tmp_path / "config.json")
