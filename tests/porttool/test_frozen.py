"""Values of `porttool.frozen` are what the standard library's frozen dataclasses are."""

import dataclasses
from dataclasses import FrozenInstanceError, field, fields, replace
from functools import cached_property

import pytest

from porttool.frozen import dataclass


def defined(decorator, **options):
    """Return one class made by a decorator, with every kind of field that is in use."""

    @decorator(frozen=True, **options)
    class Place:
        path: str
        line: int = 1
        names: list[str] = field(default_factory=list, compare=False)
        starts: tuple[int, ...] = field(default=(), repr=False)

    return Place


@pytest.fixture(params=[{}, {"slots": True}, {"eq": False}], ids=["plain", "slots", "no-eq"])
def pair(request):
    return defined(dataclass, **request.param), defined(dataclasses.dataclass, **request.param)


def test_same_values_as_the_standard_library(pair):
    ours, theirs = pair
    for arguments, words in [
        (("a",), {}),
        (("a", 2, ["x"]), {"starts": (1,)}),
        ((), {"path": "b"}),
    ]:
        one, other = ours(*arguments, **words), theirs(*arguments, **words)
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert repr(one) == repr(other)
    assert [f.name for f in fields(ours)] == [f.name for f in fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert hasattr(ours("a"), "__dict__") == hasattr(theirs("a"), "__dict__")


def test_same_comparisons_as_the_standard_library(pair):
    ours, theirs = pair
    assert ours("a") != theirs("a")
    for left, right in [(("a",), ("a", 1, ["x"])), (("a",), ("a", 2)), (("a",), ("b",))]:
        assert (ours(*left) == ours(*right)) is (theirs(*left) == theirs(*right))
        assert len({ours(*left), ours(*right)}) == len({theirs(*left), theirs(*right)})


def test_a_value_cannot_be_changed_and_another_is_made_of_it(pair):
    value = pair[0]("a", names=["x"])
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'line'"):
        value.line = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'line'"):
        del value.line
    assert dataclasses.asdict(replace(value, line=2)) == {**dataclasses.asdict(value), "line": 2}


def test_defaults_are_made_anew(pair):
    first, second = pair[0]("a"), pair[0]("b")
    first.names.append("x")
    assert second.names == []


def test_wrong_arguments_are_refused(pair):
    for arguments, words in [((), {}), (("a", 1, [], (), 5), {}), (("a",), {"unknown": 1})]:
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            pair[0](*arguments, **words)


def test_own_methods_properties_and_subclasses_stay():
    @dataclass(frozen=True)
    class Named:
        """Has a method of each kind that is not to be replaced."""

        name: str

        def __eq__(self, other):
            return isinstance(other, Named) and self.name.lower() == other.name.lower()

        def __hash__(self):
            return hash(self.name.lower())

        def __repr__(self):
            return f"<{self.name}>"

        def __post_init__(self):
            assert self.name

        @cached_property
        def long(self):
            return self.name * 2

    @dataclass(frozen=True)
    class Further(Named):
        line: int = 0

    assert Named("a") == Named("A")
    assert len({Named("a"), Named("A")}) == 1
    assert repr(Named("a")) == "<a>"
    assert Named("a").long == "aa"
    with pytest.raises(AssertionError):
        Named("")
    assert (Further("a", 3).name, Further("a", 3).line) == ("a", 3)
    assert Further("a", 3) != Further("a", 4)


def test_one_field_and_none():
    @dataclass(frozen=True)
    class One:
        x: int

    @dataclass(frozen=True)
    class Nothing:
        pass

    assert One(1) == One(1) != One(2)
    assert hash(One(1)) == hash((1,))
    assert Nothing() == Nothing()
    assert repr(Nothing()).endswith("Nothing()")


def test_what_is_not_frozen_is_made_by_the_standard_library():
    @dataclass
    class Open:
        x: int = 1

    value = Open()
    value.x = 2
    assert value == Open(2)
    assert Open.__hash__ is None
