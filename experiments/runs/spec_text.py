"""A spec back as a SPEC.toml, for whoever makes one from a form instead of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from experiments.runs.spec import Spec


def spec_text(spec: Spec) -> str:
    """TOML that ``parse_spec`` reads back as an equal spec. What has its default value is left out.

    Raises ValueError for a value that TOML does not know, such as None in a policy's fields.
    """
    return "\n".join(_lines((), _given(spec))).strip() + "\n"


def _given(table: msgspec.Struct) -> dict[str, Any]:
    """Fields that differ from their defaults, tables within as dicts."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(table):
        value = getattr(table, field.name)
        if isinstance(value, msgspec.Struct):
            inner = _given(value)
            # A table that is there by itself says something, even when all its fields are the usual ones.
            if inner or field.default is None or field.required:
                found[field.name] = inner
        elif field.required or value not in ({}, field.default):
            found[field.name] = value
    return found


def _lines(path: tuple[str, ...], table: dict[str, Any]) -> Iterator[str]:
    plain = {name: value for name, value in table.items() if not isinstance(value, dict)}
    if path and (plain or not table):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for name, value in plain.items():
        yield f"{_key(name)} = {_value((*path, name), value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _lines((*path, name), value)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)


def _value(path: tuple[str, ...], value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(path, item) for item in value)}]"
    raise ValueError(f"{'.'.join(path)} is {value!r:.80}, which TOML cannot hold")


def _text(value: str) -> str:
    """A basic string: JSON's, but for the one control character that JSON leaves as it is."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
