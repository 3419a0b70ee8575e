"""A model folder in Hugging Face form, checked before anything is computed with it. No pickle is ever read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from model_runner.chat_template import read_chat_template
from model_runner.errors import ModelFormatError, ModelNotFoundError
from model_runner.folder_config import CONFIG_FILE, read_config, read_json
from model_runner.model_config import HEAD, ModelConfig, tensor_shapes
from model_runner.tokenizer import BytePairTokenizer, TokenIdTokenizer, Tokenizer

Progress = Callable[[str, float, str], None]
"""Told (stage, fraction 0..1, message) while a model is made ready."""

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"


class WeightSource(Protocol):
    """Tensors by checkpoint name, fetched one at a time so that a model is never in memory twice."""

    def __call__(self, name: str, /) -> torch.Tensor:
        """The tensor, on the CPU, in the number type of the file. The caller must not write into it."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A checked model that is not on its device yet.

    name: what the user called it. note: what they should know about it, "" = nothing. weights: any name of
    ``tensor_shapes(config)``.
    """

    name: str
    note: str
    config: ModelConfig
    tokenizer: Tokenizer
    weights: WeightSource
    is_toy: bool = False


def load_folder(folder: Path, progress: Progress, *, name: str | None = None, note: str = "") -> LoadedModel:
    """Open a folder with ``config.json``, ``*.safetensors`` and perhaps ``tokenizer.json``.

    Raises ModelNotFoundError when there is no such folder, ModelFormatError naming file and field or tensor when what
    is in it is incomplete, damaged or not supported.
    """
    config = folder_config(folder)
    progress("load", 0.0, f"checking the tensors of {folder.name}")
    weights = SafetensorsWeights(folder)
    weights.check(config)
    progress("tokenizer", 0.0, "reading the tokenizer")
    return LoadedModel(name or str(folder), note, config, read_tokenizer(folder, config), weights)


def folder_config(folder: Path) -> ModelConfig:
    """Shape of the model in a folder. Raises ModelNotFoundError or ModelFormatError, as ``load_folder`` does."""
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"model is {str(folder)!r}; it must be 'smollm2', 'toy' or a folder with {CONFIG_FILE} and *.safetensors"
        )
    return read_config(folder)


def read_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    """The folder's tokenizer; one that reads and writes token ids where there is none."""
    path = folder / TOKENIZER_FILE
    if not path.exists():
        return TokenIdTokenizer(config.vocab_size, config.eos_token_ids)
    settings_path = folder / TOKENIZER_CONFIG_FILE
    settings = read_json(settings_path) if settings_path.exists() else {}
    chat = read_chat_template(folder, settings_path, settings)
    tokenizer = BytePairTokenizer.from_file(path, config.eos_token_ids, chat)
    if tokenizer.vocab_size > config.vocab_size:
        raise ModelFormatError(
            f"{path}: has {tokenizer.vocab_size} tokens, but vocab_size in {CONFIG_FILE} is {config.vocab_size}"
        )
    # Models are often padded to a round number of tokens: such a token can be sampled, has no text, and comes back as
    # prior output when its request continues elsewhere.
    tokenizer.vocab_size = config.vocab_size
    return tokenizer


class SafetensorsWeights:
    """The tensors of one or several safetensors files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file_of = _tensor_files(folder)
        self._open: dict[Path, Any] = {}

    def check(self, config: ModelConfig) -> None:
        """Every tensor the model needs is there with its shape, and none it does not know.

        Raises ModelFormatError naming file and tensor.
        """
        expected = dict(tensor_shapes(config))
        for name, shape in expected.items():
            path = self._file_of.get(name)
            if path is None:
                raise ModelFormatError(f"{self._folder}: tensor {name!r} is missing; its shape must be {list(shape)}")
            found = tuple(self._handle(path).get_slice(name).get_shape())
            if found != shape:
                raise ModelFormatError(
                    f"{path}: tensor {name!r} has shape {list(found)}; {CONFIG_FILE} asks for {list(shape)}"
                )
        for name, path in self._file_of.items():
            # A tied head and the rotary table are written by some tools although they follow from the rest.
            if name not in expected and name != HEAD and not name.endswith("rotary_emb.inv_freq"):
                raise ModelFormatError(
                    f"{path}: tensor {name!r} has no place in the model that {CONFIG_FILE} describes"
                )

    def __call__(self, name: str, /) -> torch.Tensor:
        path = self._file_of[name]
        # Opened anew and copied: tensors of an open file are views of its mapping, which would stay in memory beside
        # what is made from them, and a file that somebody cuts short later would kill the process.
        with open_safetensors(path) as file:
            tensor: torch.Tensor = file.get_tensor(name).clone()
        if not tensor.is_floating_point():
            raise ModelFormatError(f"{path}: tensor {name!r} is {tensor.dtype}; it must be a floating-point type")
        return tensor

    def _handle(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = open_safetensors(path)
        return self._open[path]


def open_safetensors(path: Path) -> Any:
    """Raises ModelFormatError naming the file when it is missing, cut short or not safetensors."""
    try:
        return safe_open(str(path), framework="pt", device="cpu")
    except FileNotFoundError as error:
        raise ModelFormatError(f"{path}: the file is missing") from error
    except (SafetensorError, OSError) as error:
        raise ModelFormatError(f"{path}: damaged or cut short: {error}") from error


def _tensor_files(folder: Path) -> Mapping[str, Path]:
    index_path = folder / INDEX_FILE
    if not index_path.exists():
        path = folder / WEIGHTS_FILE
        return dict.fromkeys(open_safetensors(path).keys(), path)
    weight_map = read_json(index_path).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise ModelFormatError(f"{index_path}: weight_map must map tensor names to file names")
    files = {name: folder / file for name, file in weight_map.items()}
    for name, path in files.items():
        # An index may come from anywhere; it must not make the runner open a file outside the model's folder.
        if path.name != weight_map[name]:
            raise ModelFormatError(f"{index_path}: weight_map[{name!r}] is {weight_map[name]!r}, not a file name")
    present = {path: set(open_safetensors(path).keys()) for path in dict.fromkeys(files.values())}
    for name, path in files.items():
        if name not in present[path]:
            raise ModelFormatError(f"{path}: tensor {name!r} is missing, although {INDEX_FILE} says it is here")
    return files
