"""What an experiment is: the tables of a SPEC.toml, checked when read and frozen afterwards."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from experiments.analysis.metrics import METRICS
from model_runner.config import DEFAULT_MODEL, KNOWN_MODELS

MAX_SPEC_BYTES: Final = 2**20
MAX_THREADS: Final = 1024
"""Above any machine's cores; a process that starts many thousands of them dies without a word."""
MAX_NAME: Final = 200
DEVICE_PATTERN: Final = "^(auto|cpu|cuda(:[0-9]{1,3})?)$"
LABEL_PATTERN: Final = "^[a-z0-9][a-z0-9._-]{0,39}$"

Count = Annotated[int, Meta(ge=1, le=100_000_000)]
Threads = Annotated[int, Meta(ge=0, le=MAX_THREADS)]
CountOrNone = Annotated[int, Meta(ge=0, le=100_000_000)]
Label = Annotated[str, Meta(pattern=LABEL_PATTERN)]
Limit = Annotated[float, Meta(gt=0, le=1e6)]

Kind = Literal["single", "ab", "factorial", "chunk"]
NumberType = Literal["auto", "float32", "bfloat16"]
ChunkField = Literal["max_num_batched_tokens", "long_prefill_token_threshold"]

WORDS: Final = {
    "kind": f"one of {', '.join(get_args(Kind))}",
    "model.dtype": f"one of {', '.join(get_args(NumberType))}",
    "model.device": "auto, cpu, cuda or cuda:N",
    "chunk.field": f"one of {', '.join(get_args(ChunkField))}",
    "label": "1 to 40 characters of a-z, 0-9, '.', '_' and '-', the first a letter or digit",
}
"""What would be right, where msgspec's own words do not tell it to people."""

TABLES: Final[dict[str, tuple[str, ...]]] = {
    "single": ("policy",),
    "ab": ("a", "b"),
    "factorial": ("policy", "factorial"),
    "chunk": ("policy", "chunk"),
}
"""Kind -> the tables that say what its arms are; all but ``policy`` and ``factorial`` must be there."""


class SpecError(ValueError):
    """A spec that cannot be run; the message names file, table and field, the value, and what would be right."""


class ModelTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[model]``: the fields of ``RunnerConfig``, with its defaults. "auto" and 0 are settled at the first start."""

    model: str = DEFAULT_MODEL
    device: Annotated[str, Meta(pattern=DEVICE_PATTERN)] = "auto"
    dtype: NumberType = "auto"
    threads: Threads = 0
    block_size: Count = 16
    num_blocks: Count = 192
    num_host_blocks: CountOrNone = 64
    max_model_len: Annotated[int, Meta(ge=2, le=100_000_000)] | None = None


class GenerateTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[trace.generate]``: a made workload, by a style, or by arrivals, prompt and output in their text forms.

    style, rate: as in ``traces.in_style_of``. arrivals, prompt, output: such as "gamma:rate=2,burstiness=0.5" and
    "lognormal:median=200,sigma=0.9".
    """

    num_requests: Count
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    style: str = ""
    rate: Limit | None = None
    arrivals: str = ""
    prompt: str = ""
    output: str = ""


class TraceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[trace]``: a file or ``[trace.generate]``, then what fits it to a machine.

    file: in any format that ``traces.read_trace`` knows, relative to the spec's own folder. limit: read the first so
    many rows. seconds_per_step: for files whose arrivals are steps. arrivals, arrivals_seed: arrivals anew, in text
    form. scale: fields of ``traces.ScaleSpec``.
    """

    file: str = ""
    limit: Count | None = None
    seconds_per_step: Limit | None = None
    arrivals: str = ""
    arrivals_seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    generate: GenerateTable | None = None
    scale: dict[str, Any] = {}


class PolicyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """An arm's policy: a preset, and fields of ``SchedulerPolicy`` that differ from it.

    label: of the arm in ``[a]`` and ``[b]``, by default "a" and "b".
    """

    preset: str = "vllm-v1"
    set: dict[str, Any] = {}
    label: Label | None = None


class FactorialTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[factorial]``: as in ``analysis.factorial.arms``."""

    allocation_off: str = "reserve_max"
    optimistic_rule: str = ""


class ChunkTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[chunk]``: one arm for each size of a policy field. long_prompt_len: prompts of so many tokens are "long"."""

    sizes: Annotated[tuple[Count, ...], Meta(min_length=2, max_length=64)]
    long_prompt_len: Count
    field: ChunkField = "max_num_batched_tokens"


class SloTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[slo]``: seconds a request must keep to count as good; None = no limit."""

    ttft_s: Limit | None = None
    tpot_s: Limit | None = None
    e2e_s: Limit | None = None


class ClaimTable(Struct, frozen=True, forbid_unknown_fields=True):
    """``[claim]``: what a card cannot read from the runs.

    tuned: whether the baseline was tuned, None = nobody said; tuning: how, or why not. headline: metric of the claim.
    """

    tuned: bool | None = None
    tuning: str = ""
    headline: str = "output_tokens_per_s"


class Spec(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole experiment. repeats: runs of each arm. seed: of the toy model and of random prompts."""

    kind: Kind
    trace: TraceTable
    name: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    repeats: Annotated[int, Meta(ge=1, le=1000)] = 2
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    model: ModelTable = ModelTable()
    policy: PolicyTable | None = None
    a: PolicyTable | None = None
    b: PolicyTable | None = None
    factorial: FactorialTable | None = None
    chunk: ChunkTable | None = None
    slo: SloTable = SloTable()
    claim: ClaimTable = ClaimTable()


def read_spec(path: Path) -> Spec:
    """Read and check a SPEC.toml. Raises SpecError."""
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            raise SpecError(f"{path}: larger than {MAX_SPEC_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from error
    return parse_spec(text, str(path))


def parse_spec(text: str, source: str = "spec") -> Spec:
    """As ``read_spec``, from text; ``source`` opens each message."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{source}: {error}") from error
    except RecursionError as error:
        raise SpecError(f"{source}: nested too deeply") from error
    try:
        spec = msgspec.convert(data, Spec)
    except msgspec.ValidationError as error:
        raise SpecError(f"{source}: {_in_words(str(error), data)}") from error
    _check_tables(spec, source)
    return spec


def _check_tables(spec: Spec, source: str) -> None:
    wanted = TABLES[spec.kind]
    for name in ("policy", "a", "b", "factorial", "chunk"):
        given = getattr(spec, name) is not None
        if given and name not in wanted:
            raise SpecError(f"{source}: [{name}] is there, but kind is {spec.kind!r}, which takes {_tables(wanted)}")
        if not given and name in wanted and name not in ("policy", "factorial"):
            raise SpecError(f"{source}: [{name}] is missing; kind {spec.kind!r} needs {_tables(wanted)}")
    if bool(spec.trace.file) == (spec.trace.generate is not None):
        raise SpecError(f"{source}: trace needs either file or [trace.generate], and not both")
    if spec.kind == "factorial" and spec.model.max_model_len is None:
        raise SpecError(
            f"{source}: model.max_model_len is missing; the arms of a factorial reserve memory and step budgets for it"
        )
    if spec.model.model not in KNOWN_MODELS and not Path(spec.model.model).expanduser().is_dir():
        found = f"{source}: model.model is {spec.model.model!r:.80}"
        raise SpecError(f"{found}, expected {', '.join(KNOWN_MODELS)} or a folder in Hugging Face form")
    if spec.claim.headline not in METRICS:
        found = f"{source}: claim.headline is {spec.claim.headline!r:.80}"
        raise SpecError(f"{found}, expected one of {', '.join(METRICS)}")
    if spec.chunk is not None and len(set(spec.chunk.sizes)) < len(spec.chunk.sizes):
        raise SpecError(f"{source}: chunk.sizes is {list(spec.chunk.sizes)}, expected each size once")


def _tables(names: tuple[str, ...]) -> str:
    return " and ".join(f"[{name}]" for name in names)


def _in_words(message: str, data: dict[str, Any]) -> str:
    """msgspec's message with the field first, as it is written in TOML, and with the value found there."""
    what, _, place = message.partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    what = what[:1].lower() + what[1:]
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown:
        field = ".".join(filter(None, (path, unknown[1])))
        return f"{field} is not a field; known are {', '.join(_fields_at(path))}"
    missing = re.search(r"missing required field `(.*)`", what)
    if missing:
        return f"{'.'.join(filter(None, (path, missing[1])))} is missing"
    if "enum value" in what or "matching regex" in what:
        what = f"expected {WORDS[path if path in WORDS else path.rpartition('.')[2]]}"
    return f"{path} is {_value_at(path, data)!r:.80}: {what}"


def _fields_at(path: str) -> tuple[str, ...]:
    tables: dict[str, type[Struct]] = {
        "": Spec,
        "model": ModelTable,
        "trace": TraceTable,
        "trace.generate": GenerateTable,
        "factorial": FactorialTable,
        "chunk": ChunkTable,
        "slo": SloTable,
        "claim": ClaimTable,
    }
    return tables.get(path, PolicyTable).__struct_fields__


def _value_at(path: str, data: Any) -> Any:
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        data = data[int(index)] if index else data.get(key)
    return data
