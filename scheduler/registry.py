"""Named choices of a policy field. Registering a value is all it takes to offer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

REGISTRIES: dict[str, Registry[Any]] = {}
"""Policy field -> its registry. Filled when the decision modules are imported."""


class Choice:
    """A value of a policy field that is an object of its own.

    name: what the policy calls it. description: what it does and what it trades, in a sentence for the page; by
    default the first line of the docstring. A choice is shared by every scheduler of the process: it keeps no state.
    """

    name: str = ""
    description: str = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "description" not in cls.__dict__ and cls.__doc__:
            cls.description = cls.__doc__.strip().partition("\n")[0]


class Registry(Generic[T]):
    """The values one policy field can take, by name, in the order in which they were registered."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._entries: dict[str, T] = {}
        REGISTRIES[field] = self

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: offer the decorated function, class or object under ``name``.

        Raises ValueError when the name is taken, so that two files cannot fight over one value.
        """

        def add(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.field} already has a value named {name!r}")
            self._entries[name] = entry
            return entry

        return add

    def description(self, name: str) -> str:
        """What a value says about itself, "" when it says nothing. Raises KeyError for an unknown name."""
        text: str = getattr(self._entries[name], "description", "")
        return text

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> tuple[str, ...]:
        """All values, in the order in which they were registered."""
        return tuple(self._entries)
