"""``kind:field=value,field=value``: how distributions are written in spec files and commands, and read from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, ClassVar, TypeVar, cast

from experiments.traces.errors import TraceError, short


class TextForm:
    """Base of the frozen distributions: ``str(x)`` is their text form, all fields written out."""

    __slots__ = ()
    kind: ClassVar[str]

    def __str__(self) -> str:
        pairs = (f"{field.name}={_text(getattr(self, field.name))}" for field in fields(cast(Any, self)))
        return f"{self.kind}:{','.join(pairs)}".removesuffix(":")

    def problem(self) -> str:
        """ "" or what is wrong, as "field is value, expected ..."."""
        raise NotImplementedError


Form = TypeVar("Form", bound=TextForm)


def parse(text: str, kinds: Sequence[type[Form]], source: str) -> Form:
    """The distribution a text writes. Raises TraceError naming field, value and what would be right."""
    kind, _, rest = text.partition(":")
    found = next((one for one in kinds if one.kind == kind.strip()), None)
    if found is None:
        raise TraceError(source, f"is {short(text)}, expected one of {', '.join(_usage(one) for one in kinds)}")
    known = {field.name: field for field in fields(cast(Any, found))}
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        name, mark, value = part.partition("=")
        if name not in known or not mark or name in values:
            raise TraceError(source, f"is {short(part)} in {short(text)}, expected {_usage(found)}", field=name[:80])
        values[name] = _value(value, str(known[name].type), source, name)
    missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
    if missing:
        raise TraceError(source, f"is missing in {short(text)}, expected {_usage(found)}", field=missing[0])
    made = found(**values)
    checked(made, source)
    return made


def checked(form: TextForm, source: str) -> None:
    """Raises TraceError when a distribution has a value out of range."""
    problem = form.problem()
    if problem:
        raise TraceError(source, problem, field=problem.split(" ", 1)[0])


def _value(text: str, kind: str, source: str, name: str) -> int | float | str:
    if kind == "str":
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        wanted = "a whole number" if kind == "int" else "a number"
        raise TraceError(source, f"is {short(text)}, expected {wanted}", field=name) from None


def _usage(kind: type[TextForm]) -> str:
    pairs = [f.name if f.default is MISSING else f"{f.name}={_text(f.default)}" for f in fields(cast(Any, kind))]
    return kind.kind + (f":{','.join(pairs)}" if pairs else "")


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
