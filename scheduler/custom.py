"""Policies of one's own: every file of a folder, loaded once per process. docs/own-policies.md shows how to write one.

The files are code and run with the rights of this process. They are read from one local folder only.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from scheduler.allocation import ALLOCATORS, Allocator
from scheduler.guard import FAULTS, OwnAllocator, OwnOrder, OwnVictimRule, in_words, shown
from scheduler.ordering import ORDERS, AdmissionOrder
from scheduler.refusals import Source
from scheduler.registry import Choice, Registry
from scheduler.victims import VICTIMS, VictimRule

_log = logging.getLogger(__name__)

VARIABLE: Final = "BATCHSCOPE_POLICIES"
"""Environment variable with the folder. A worker inherits it, so that it loads what the page has loaded."""

DEFAULT_FOLDER: Final = Path(__file__).resolve().parents[1] / "policies"
"""Used when the variable is not set and the folder is there."""

LEGAL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class OwnPolicy:
    """A value of a policy field that came from a file. description: for the page, in the author's words."""

    field: str
    name: str
    description: str
    file: str


@dataclass(frozen=True, slots=True)
class LoadFault:
    """Why a file, or one class of it, offers nothing. file: its name, or the folder where that is at fault."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kind:
    """What a base class stands for: where its classes are offered, who decides for a refused one, and the guard."""

    base: type[Choice]
    registry: Registry[Any]
    stand_in: str
    guard: Callable[[Any, Source], Choice]


KINDS: Final = (
    Kind(VictimRule, VICTIMS, "newest", OwnVictimRule),
    Kind(AdmissionOrder, ORDERS, "fcfs", OwnOrder),
    Kind(Allocator, ALLOCATORS, "paged", OwnAllocator),
)

_loaded: list[OwnPolicy] = []
_faults: list[LoadFault] = []
_folders: set[Path] = set()
_lock = threading.Lock()


def loaded() -> tuple[OwnPolicy, ...]:
    """What the files of this process offer, in the order of their names."""
    return tuple(_loaded)


def faults() -> tuple[LoadFault, ...]:
    """What could not be offered, and why."""
    return tuple(_faults)


def folder_of(environment: Mapping[str, str]) -> Path | None:
    """The folder the environment names, else the default one where it exists, else None."""
    chosen = environment.get(VARIABLE, "").strip()
    if chosen:
        return Path(chosen)
    return DEFAULT_FOLDER if DEFAULT_FOLDER.is_dir() else None


def load_from_environment() -> None:
    """Load the folder of this process' environment, the first time this is called."""
    folder = folder_of(os.environ)
    if folder is not None:
        load(folder)


def load(folder: Path) -> None:
    """Offer the policies of every ``*.py`` of a folder, in the order of the file names, but once per process only.

    Names that begin with "_" are left out. Never raises: what fails is logged and kept in ``faults()``.
    """
    folder = folder.expanduser().absolute()
    with _lock:
        if folder not in _folders:
            _folders.add(folder)
            _load_folder(folder)


def _load_folder(folder: Path) -> None:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".py" and not path.name.startswith("_"))
    except OSError as error:
        _fault(str(folder), f"the folder cannot be read: {error.strerror or error}; {VARIABLE} names it")
        return
    for path in files:
        _load_file(path)


def _load_file(path: Path) -> None:
    try:
        module = _import(path)
    except FAULTS as error:
        _fault(path.name, f"cannot be imported: {in_words(error, path.name)}")
        return
    classes = list(_classes(module))
    if not classes:
        _fault(path.name, f"has no class derived from {', '.join(kind.base.__name__ for kind in KINDS)}")
    for cls, kind in classes:
        _offer(cls, kind, path.name)


def _import(path: Path) -> ModuleType:
    name = f"batchscope_policies.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _classes(module: ModuleType) -> Iterator[tuple[type[Choice], Kind]]:
    """The classes made in a module, in the order in which they stand in it, with what they are."""
    for value in vars(module).values():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            for kind in KINDS:
                if issubclass(value, kind.base):
                    yield value, kind


def _offer(cls: type[Choice], kind: Kind, file: str) -> None:
    name = getattr(cls, "name", None)
    if not isinstance(name, str) or not LEGAL_NAME.fullmatch(name):
        _fault(
            file,
            f"class {cls.__name__} has the name {shown(name)}, expected small letters, digits and _ beginning with a "
            "letter, at most 40",
        )
        return
    if name in kind.registry:
        _fault(file, f"class {cls.__name__} wants the name {name!r}, which {kind.registry.field} has already")
        return
    try:
        choice = kind.guard(cls(), Source(kind.registry.field, name, file, kind.stand_in))
    except FAULTS as error:
        _fault(file, f"class {cls.__name__} cannot be made: {in_words(error, file)}")
        return
    kind.registry.register(name)(choice)
    _loaded.append(OwnPolicy(kind.registry.field, name, choice.description, file))


def _fault(file: str, reason: str) -> None:
    _log.warning("policies: %s %s", file, reason)
    _faults.append(LoadFault(file, reason))
