from nextok.decode import Constraint, GrammarConstraint, grammar_constraint
from nextok.tokenizer import byte_tokenizer

from .tiny import Cycle


def test_what_meets_the_protocol_is_a_constraint():
    assert isinstance(Cycle(5), Constraint)
    assert not isinstance(object(), Constraint)


def test_grammars_are_constraints():
    constraint = grammar_constraint(byte_tokenizer(), regex="a")
    spoken_to: Constraint = constraint
    assert isinstance(spoken_to, GrammarConstraint)
    assert isinstance(spoken_to, Constraint)
