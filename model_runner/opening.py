"""From the name of a model to the model, and to the number type and threads it runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from model_runner.config import DEFAULT_MODEL, TOY_MODEL, RunnerConfig
from model_runner.device import DeviceChoice, choose_device
from model_runner.loader import LoadedModel, Progress, folder_config, load_folder
from model_runner.model_cache import SMOLLM2, load_packaged
from model_runner.start_measurement import Candidate, ProductShapes, measure_products
from model_runner.toy import load_toy, toy_config


def choose_for_model(
    config: RunnerConfig, progress: Progress, known: Mapping[tuple[str, int], float] = MappingProxyType({})
) -> DeviceChoice:
    """Device, number type and threads; on a CPU those not asked for by timing products of the model's shapes.

    known: decode milliseconds by (number type, threads) from an earlier start; when it has all that would be timed, it
    is used instead.
    Raises RunnerConfigError, ModelNotFoundError or ModelFormatError.
    """

    def measure(candidates: Sequence[Candidate]) -> dict[Candidate, float]:
        names = {candidate: (candidate.dtype_name, candidate.threads) for candidate in candidates}
        if known.keys() >= set(names.values()):
            return {candidate: known[name] for candidate, name in names.items()}
        progress("measure", 0.0, "timing products to choose number type and threads")
        return measure_products(shapes_of(config), candidates)

    return choose_device(config, measure)


def shapes_of(config: RunnerConfig) -> ProductShapes:
    """Shapes of the model a config names, before anything of its weights is read."""
    if config.model == DEFAULT_MODEL:
        return SMOLLM2.shapes
    model = toy_config() if config.model == TOY_MODEL else folder_config(Path(config.model).expanduser())
    return ProductShapes(model.hidden_size, model.intermediate_size, model.num_hidden_layers)


def open_model(config: RunnerConfig, choice: DeviceChoice, progress: Progress) -> LoadedModel:
    """The model a config names: the packaged default, the toy, or a folder in Hugging Face form."""
    if config.model == TOY_MODEL:
        return load_toy(config.seed)
    if config.model == DEFAULT_MODEL:
        return load_packaged(SMOLLM2, choice.dtype, progress)
    return load_folder(Path(config.model).expanduser(), progress)
