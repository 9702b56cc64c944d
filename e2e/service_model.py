"""Compares JSON with the shapes of AWS's service model, which is part of botocore.

botocore ignores unknown fields in responses and checks only a part of each request. This module
checks everything that the model says about the JSON on the wire.
"""

import base64
import binascii
import re

import botocore.session
from structure import (
    OF_A_KEY,
    OF_ANOTHER_KIND,
    Problem,
    another_kind,
    of_a_literal,
    short,
    under,
)

# The model of Bedrock's API for inference.
SERVICE = botocore.session.Session().get_service_model("bedrock-runtime")

SCALARS = {
    "string": (str, "a text"),
    "blob": (str, "a text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "long": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "double": ((int, float), "a number"),
}


def problems(value, shape, path=""):
    """Returns all problems of a value. Members that are not in the body are left out."""
    kind = shape.type_name
    if kind == "structure":
        return [] if shape.is_document_type else of_a_structure(value, shape, path)
    if kind == "list":
        return of_a_list(value, shape, path)
    if kind == "map":
        return of_a_map(value, shape, path)
    expected, name = SCALARS[kind]
    fits = isinstance(value, expected) and (kind == "boolean" or not isinstance(value, bool))
    if not fits:
        return [another_kind(value, name, path)]
    return of_a_scalar(value, shape, path)


def of_a_structure(value, shape, path):
    if not isinstance(value, dict):
        return [another_kind(value, "an object", path)]
    members = body_members(shape)
    found = []
    for key, item in value.items():
        if key in members:
            found.extend(problems(item, members[key], under(path, key)))
        else:
            found.append(Problem(under(path, key), "is not known", OF_A_KEY))
    missing = [key for key in shape.required_members if key in members and key not in value]
    found.extend(Problem(under(path, key), "is missing", OF_A_KEY) for key in missing)
    if shape.is_tagged_union and len(value) != 1:
        text = f"has {len(value)} fields, and a union has 1"
        found.append(Problem(path, text, OF_ANOTHER_KIND))
    return found


def body_members(shape):
    """Returns the members of a structure by their names in JSON, without those in the URL."""
    return {
        member.serialization.get("name", key): member
        for key, member in shape.members.items()
        if member.serialization.get("location") is None
    }


def of_a_list(value, shape, path):
    if not isinstance(value, list):
        return [another_kind(value, "a list", path)]
    found = [
        problem
        for index, item in enumerate(value)
        for problem in problems(item, shape.member, under(path, index))
    ]
    return found + of_a_size(len(value), shape, path)


def of_a_map(value, shape, path):
    if not isinstance(value, dict):
        return [another_kind(value, "an object", path)]
    found = of_a_size(len(value), shape, path)
    for key, item in value.items():
        found.extend(problems(key, shape.key, under(path, key)))
        found.extend(problems(item, shape.value, under(path, key)))
    return found


def of_a_scalar(value, shape, path):
    if shape.type_name == "blob":
        try:
            return of_a_size(len(base64.b64decode(value, validate=True)), shape, path)
        except binascii.Error:
            return [Problem(path, f"{short(value)} is not base64", OF_ANOTHER_KIND)]
    if shape.type_name != "string":
        return of_a_size(value, shape, path)
    if shape.enum:
        return of_a_literal(value, tuple(shape.enum), path)
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        return [Problem(path, f"{short(value)} does not match {pattern}", OF_ANOTHER_KIND)]
    return of_a_size(len(value), shape, path)


def of_a_size(size, shape, path):
    """Checks a number, or the length of a text or a list."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        return [Problem(path, f"{size} is less than {least}", OF_ANOTHER_KIND)]
    if most is not None and size > most:
        return [Problem(path, f"{size} is more than {most}", OF_ANOTHER_KIND)]
    return []
