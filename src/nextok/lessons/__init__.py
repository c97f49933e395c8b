"""The lessons' worked examples, exercises and tables, run and compared. Drawing and quizzing are `cli`'s."""

from nextok.lessons.worked import Example, Fact, Grid, Value, Worked, as_given, pick, spelled

__all__ = ["Example", "Fact", "Grid", "Value", "Worked", "as_given", "pick", "spelled"]
