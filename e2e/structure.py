"""Compares JSON with the types of a client, strictly: unknown keys and missing keys are problems.

The vendors' clients describe requests by `TypedDict`s and answers by pydantic models, and check
neither: whatever comes is taken. Here both are read by their annotations.
"""

import collections.abc
import datetime
import os
import types
import typing
from dataclasses import dataclass
from functools import cache

import ollama._types
import pydantic
import typing_extensions


@dataclass(frozen=True)
class Problem:
    """One way in which a value is not of a type."""

    path: str
    text: str
    # How much it says against the type as a whole: a value of another kind altogether, another
    # tag, or only some key.
    weight: int

    def __str__(self):
        return f"{self.path or 'the value'}: {self.text}"


OF_ANOTHER_KIND, OF_ANOTHER_TAG, OF_A_KEY = 3, 2, 1

UNIONS = {typing.Union, getattr(types, "UnionType", typing.Union)}
LISTS = {list, collections.abc.Iterable, collections.abc.Sequence}
DICTS = {dict, collections.abc.Mapping}


# Models that become other JSON than their fields say, with the type of that.
WRITTEN_OTHERWISE = {ollama._types.Image: str}


def problems(value, expected, path="", without=frozenset()):
    """All that is wrong with a value; of a union, what is wrong by its most similar member.

    `without` are keys of the outermost type that do not count: parameters of a client's that are
    no part of the JSON.
    """
    origin = typing_extensions.get_origin(expected)
    args = typing_extensions.get_args(expected)
    if expected is typing.Any or expected is object:
        return []
    if origin is typing_extensions.Annotated:
        return problems(value, args[0], path, without)
    if hasattr(expected, "__value__"):  # type X = …
        return problems(value, expected.__value__, path, without)
    if origin in UNIONS:
        return of_a_union(value, args, path, without)
    if origin is typing_extensions.Literal:
        return of_a_literal(value, args, path)
    if origin in LISTS or expected in LISTS:
        return of_a_list(value, args, path)
    if origin in DICTS or expected in DICTS:
        return of_a_dict(value, args, path)
    if expected in WRITTEN_OTHERWISE:
        return problems(value, WRITTEN_OTHERWISE[expected], path)
    if typing_extensions.is_typeddict(expected):
        return of_fields(value, fields_of_dict(expected), allows_more(expected), path, without)
    if has_fields(expected):
        return of_fields(value, fields_of_model(expected), False, path, without)
    return of_a_scalar(value, expected, path)


def of_a_union(value, members, path, without):
    if any(map(has_fields, members)):
        # Some types take any object besides those with known keys: that would say nothing.
        members = [member for member in members if not takes_any_object(member)]
    found = [problems(value, member, path, without) for member in members]
    # A member that fits at its own level but for a key is meant more likely than one whose tag,
    # or whose kind of JSON, is another.
    return min(found, key=lambda each: (weight_at(path, each), len(each)))


def has_fields(expected):
    is_model = isinstance(expected, type) and issubclass(expected, pydantic.BaseModel)
    return is_model or typing_extensions.is_typeddict(expected)


def takes_any_object(expected):
    args = typing_extensions.get_args(expected)
    return typing_extensions.get_origin(expected) in DICTS and args[1] in (typing.Any, object)


def weight_at(path, found):
    """How much speaks against a type as a whole: that the value is of another kind, or its tag."""
    return max((problem.weight for problem in found if speaks_of(path, problem)), default=0)


def speaks_of(path, problem):
    if problem.weight == OF_ANOTHER_TAG:
        return path in (problem.path, parent(problem.path))
    return path == (parent(problem.path) if problem.weight == OF_A_KEY else problem.path)


def parent(path):
    return path.rpartition(".")[0]


def of_a_literal(value, choices, path):
    # `True == 1`, but not in JSON.
    if any(value == choice and type(value) is type(choice) for choice in choices):
        return []
    shown = " or ".join(map(repr, choices[:4])) + (" or …" if len(choices) > 4 else "")
    return [Problem(path, f"{short(value)} is not {shown}", OF_ANOTHER_TAG)]


def of_a_list(value, args, path):
    if not isinstance(value, list):
        return [another_kind(value, "a list", path)]
    item_type = args[0] if args else object
    return [
        problem
        for index, item in enumerate(value)
        for problem in problems(item, item_type, under(path, index))
    ]


def of_a_dict(value, args, path):
    if not isinstance(value, dict):
        return [another_kind(value, "an object", path)]
    item_type = args[1] if len(args) == 2 else object
    return [
        problem
        for key, item in value.items()
        for problem in problems(item, item_type, under(path, key))
    ]


def of_fields(value, fields, more, path, without):
    if not isinstance(value, dict):
        return [another_kind(value, "an object", path)]
    found = []
    for key, (expected, required) in fields.items():
        if key in without:
            continue
        if key in value:
            found.extend(problems(value[key], expected, under(path, key)))
        elif required:
            found.append(Problem(under(path, key), "is missing", OF_A_KEY))
    if not more:
        unknown = [key for key in value if key not in fields or key in without]
        found.extend(Problem(under(path, key), "is not known", OF_A_KEY) for key in unknown)
    return found


@cache
def fields_of_dict(expected):
    """Each key of a `TypedDict` with its type and whether it must be there."""
    fields = {}
    for key, hint in typing_extensions.get_type_hints(expected, include_extras=True).items():
        # The clients' annotations are strings, so that Python itself knows only the `total` of
        # each class, and not what an annotation says of its key.
        required = key in expected.__required_keys__
        origin = typing_extensions.get_origin(hint)
        if origin in (typing_extensions.Required, typing_extensions.NotRequired):
            required = origin is typing_extensions.Required
            hint = typing_extensions.get_args(hint)[0]
        fields[json_name(hint, key)] = (hint, required)
    return fields


def json_name(hint, key):
    """The key in JSON, where the annotation of a parameter names another."""
    for extra in getattr(hint, "__metadata__", ()):
        alias = getattr(extra, "alias", None)
        if isinstance(alias, str):
            return alias
    return key


@cache
def fields_of_model(expected):
    """Each key of a pydantic model with its type and whether it must be there."""
    expected.model_rebuild()
    return {
        field.alias or name: (field.annotation, field.is_required())
        for name, field in expected.model_fields.items()
    }


def allows_more(expected):
    return getattr(expected, "__pydantic_config__", {}).get("extra") == "allow"


def of_a_scalar(value, expected, path):
    kinds = {
        str: (str, "a text"),
        bool: (bool, "true or false"),
        int: (int, "a whole number"),
        float: ((int, float), "a number"),
        type(None): (type(None), "null"),
        None: (type(None), "null"),
        # In JSON these are texts.
        datetime.datetime: (str, "a time"),
    }
    if is_of_python_alone(expected):
        return [another_kind(value, "what Python alone has", path)]
    if expected not in kinds:
        raise TypeError(f"{path}: what JSON is of {expected!r} is not known here")
    kind, name = kinds[expected]
    fits = isinstance(value, kind) and (expected is bool or not isinstance(value, bool))
    return [] if fits else [another_kind(value, name, path)]


def is_of_python_alone(expected):
    """Bytes, files and paths, which a client turns into texts."""
    base = typing_extensions.get_origin(expected) or expected
    return base in (bytes, typing.IO) or isinstance(base, type) and issubclass(base, os.PathLike)


def another_kind(value, name, path):
    return Problem(path, f"{short(value)} is not {name}", OF_ANOTHER_KIND)


def under(path, key):
    return f"{path}.{key}" if path else str(key)


def short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
