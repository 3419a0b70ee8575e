"""What a reader needs before believing a measured run: versions, machine, model, and how it was started."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from experiments.record import Conditions
from model_runner.bench_summary import machine_facts
from model_runner.config import DEFAULT_MODEL, TOY_MODEL
from model_runner.folder_config import CONFIG_FILE
from model_runner.model_cache import SMOLLM2, file_digest
from model_runner.runner import ModelInfo
from model_runner.toy import toy_config

ROOT: Final = Path(__file__).resolve().parents[2]

MEASURED_WHERE: Final = (
    "in the engine's process, when Scheduler.update is given the step's tokens; there is no client and no network"
)


def conditions_of(info: ModelInfo, *, model_sha256: str, seed: int, warm_up: str, command: str) -> Conditions:
    """The conditions of the run that is about to be made; the machine's load is that of this moment."""
    machine = machine_facts()
    versions = {
        "batchscope": own_version(),
        "python": str(machine.pop("python")),
        "torch": str(machine.pop("torch")),
        "numpy": version("numpy"),
    }
    return Conditions(
        kind="measured",
        model=info.model,
        dtype=info.dtype,
        device=info.device,
        threads=info.threads if info.device == "cpu" else 0,
        num_blocks=info.num_blocks,
        block_size=info.block_size,
        max_model_len=info.max_model_len,
        num_host_blocks=info.num_host_blocks,
        seed=seed,
        warm_up=warm_up,
        model_sha256=model_sha256,
        cache_state="empty",
        ignore_eos=True,
        measured_where=MEASURED_WHERE,
        versions=versions,
        machine={**machine, "attention": info.attention},
        command=command,
    )


def model_hash(model: str, seed: int) -> str:
    """SHA-256 of the weights, or of what makes them.

    The packaged model: of its file, which was checked when it was converted. The toy: of its shape and seed. A folder:
    of config.json and all safetensors files, by name.
    """
    if model == DEFAULT_MODEL:
        return SMOLLM2.sha256
    if model == TOY_MODEL:
        return hashlib.sha256(f"{toy_config()} seed {seed}".encode()).hexdigest()
    folder = Path(model).expanduser()
    files = sorted([folder / CONFIG_FILE, *folder.glob("*.safetensors")])
    return hashlib.sha256("".join(f"{path.name} {file_digest(path)}\n" for path in files).encode()).hexdigest()


@cache
def own_version() -> str:
    """Version of this project, and the hash of the code that schedules, computes and drives."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        number = tomllib.load(file)["project"]["version"]
    code = hashlib.sha256()
    for package in ("scheduler", "model_runner", "experiments/runs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            code.update(f"{path.relative_to(ROOT).as_posix()} {file_digest(path)}\n".encode())
    return f"{number} (code {code.hexdigest()[:12]})"
