"""Compares JSON with the types of a client. Unknown keys and missing keys are problems.

The vendors' clients describe requests by `TypedDict`s and responses by pydantic models. They check
neither and accept any value. This module checks both by their annotations. AWS's client has a
service model instead, whose shapes `service_model.py` checks.
"""

import collections.abc
import datetime
import enum
import os
import types
import typing
from dataclasses import dataclass
from functools import cache

import botocore.model
import ollama._types
import pydantic
import typing_extensions


@dataclass(frozen=True)
class Problem:
    """A difference between a value and a type."""

    path: str
    text: str
    # The strength of the evidence against the whole type. The strongest is another kind of value,
    # then another tag, then a single key.
    weight: int

    def __str__(self):
        return f"{self.path or 'the value'}: {self.text}"


OF_ANOTHER_KIND, OF_ANOTHER_TAG, OF_A_KEY = 3, 2, 1

UNIONS = {typing.Union, getattr(types, "UnionType", typing.Union)}
LISTS = {list, collections.abc.Iterable, collections.abc.Sequence}
DICTS = {dict, collections.abc.Mapping}


# Models whose JSON differs from their fields, with the type of the JSON.
WRITTEN_OTHERWISE = {ollama._types.Image: str}


def problems(value, expected, path="", without=frozenset()):
    """Returns all problems of a value. For a union, these are the problems of its best member.

    `without` has keys of the outermost type that are ignored. They are parameters of a client that
    are not part of the JSON.
    """
    if isinstance(expected, botocore.model.Shape):
        import service_model  # It imports this module.

        return service_model.problems(value, expected, path)
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
        # Some unions also accept any object, and would then find no problem at all.
        members = [member for member in members if not takes_any_object(member)]
    # Most values are valid, and their tag names the member, so that only this member is checked.
    likely = (member for member in members if may_be_tagged(value, member))
    if any(not problems(value, member, path, without) for member in likely):
        return []
    found = [problems(value, member, path, without) for member in members]
    # A member that differs only in a key at its own level is more likely to be meant than a member
    # with another tag or another kind of JSON.
    return min(found, key=lambda each: (weight_at(path, each), len(each)))


def may_be_tagged(value, member):
    """Returns false if the `type` of a value belongs to another member of a union."""
    tag = value.get("type") if isinstance(value, dict) else None
    tags = tags_of(member) if isinstance(tag, str) and has_fields(member) else None
    return tags is None or tag in tags


@cache
def tags_of(expected):
    """Returns the texts that a type allows for the key `type`, or none if it allows any text."""
    is_dict = typing_extensions.is_typeddict(expected)
    fields = fields_of_dict(expected) if is_dict else fields_of_model(expected)
    hint, _ = fields.get("type", (None, False))
    is_literal = typing_extensions.get_origin(hint) is typing_extensions.Literal
    return frozenset(typing_extensions.get_args(hint)) if is_literal else None


def has_fields(expected):
    is_model = isinstance(expected, type) and issubclass(expected, pydantic.BaseModel)
    return is_model or typing_extensions.is_typeddict(expected)


def takes_any_object(expected):
    args = typing_extensions.get_args(expected)
    return typing_extensions.get_origin(expected) in DICTS and args[1] in (typing.Any, object)


def weight_at(path, found):
    """Returns the strength of the evidence at `path` against the whole type."""
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
    """Returns the type of each key of a `TypedDict`, and true if the key is required."""
    fields = {}
    for key, hint in typing_extensions.get_type_hints(expected, include_extras=True).items():
        # The clients' annotations are strings. Python therefore knows only the `total` of each
        # class, and not `Required` or `NotRequired` in an annotation.
        required = key in expected.__required_keys__
        origin = typing_extensions.get_origin(hint)
        if origin in (typing_extensions.Required, typing_extensions.NotRequired):
            required = origin is typing_extensions.Required
            hint = typing_extensions.get_args(hint)[0]
        fields[json_name(hint, key)] = (hint, required)
    return fields


def json_name(hint, key):
    """Returns the key in JSON, which the annotation of a parameter may change."""
    for extra in getattr(hint, "__metadata__", ()):
        alias = getattr(extra, "alias", None)
        if isinstance(alias, str):
            return alias
    return key


@cache
def fields_of_model(expected):
    """Returns the type of each key of a pydantic model, and true if the key is required."""
    expected.model_rebuild()
    return {
        field.alias or name: (written(field.annotation, expected), field.is_required())
        for name, field in expected.model_fields.items()
    }


def written(hint, model):
    """Returns the type of a field in JSON. Some models write bytes as base64."""
    is_base64 = model.model_config.get("ser_json_bytes") == "base64"
    return str | None if is_base64 and hint == bytes | None else hint


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
        # In JSON a time is a text.
        datetime.datetime: (str, "a time"),
    }
    if isinstance(expected, type) and issubclass(expected, enum.Enum):
        return of_a_literal(value, [choice.value for choice in expected], path)
    if is_of_python_alone(expected):
        return [another_kind(value, "what Python alone has", path)]
    if expected not in kinds:
        raise TypeError(f"{path}: what JSON is of {expected!r} is not known here")
    kind, name = kinds[expected]
    fits = isinstance(value, kind) and (expected is bool or not isinstance(value, bool))
    return [] if fits else [another_kind(value, name, path)]


def is_of_python_alone(expected):
    """Returns true for bytes, files and paths, which a client converts to texts."""
    base = typing_extensions.get_origin(expected) or expected
    return base in (bytes, typing.IO) or isinstance(base, type) and issubclass(base, os.PathLike)


def another_kind(value, name, path):
    return Problem(path, f"{short(value)} is not {name}", OF_ANOTHER_KIND)


def under(path, key):
    return f"{path}.{key}" if path else str(key)


def short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
