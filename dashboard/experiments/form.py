"""What somebody has filled in on the page, and the SPEC.toml it stands for. Pure; nothing here draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import msgspec

from dashboard.i18n import N_
from experiments.runs.spec import TABLES, Spec, SpecError
from scheduler import PRESETS, SchedulerPolicy
from scheduler.workload import POOL_FIELDS

LIVE: Final = "live"
"""Stands among the presets for the policy in force."""

PACE: Final = frozenset({"version", "paused", "single_step", "step_delay_ms", "admission_paused"})
"""Fields of the live policy that an arm does not take over: for the eye, or a state of the moment."""

UPLOAD_FILE: Final = "upload.json"
"""The uploaded workload in the folder of the experiment."""

ARRIVALS: Final[Mapping[str, Mapping[str, float]]] = {
    "gamma": {"rate": 4.0, "burstiness": 1.0},
    "poisson": {"rate": 4.0},
    "steady": {"rate": 4.0},
    "burst": {"size": 0, "every_s": 1.0},
    "onoff": {"rate": 8.0, "burst": 16.0, "silence_s": 5.0, "least_s": 1.0},
}
"""Kind -> its fields and what they are at first. Whole numbers stay whole numbers."""

LENGTHS: Final[Mapping[str, Mapping[str, float]]] = {
    "lognormal": {"median": 80.0, "sigma": 0.8, "low": 4, "high": 400},
    "uniform": {"low": 8, "high": 64},
    "fixed": {"tokens": 32},
    "bimodal": {"short": 32, "long": 300, "share": 0.2, "spread": 0.1},
    "capped-exponential": {"mean": 48.0, "cap": 192},
}

FIELD_HELP: Final = {
    "rate": N_("Requests a second, on average."),
    "burstiness": N_("1 = Poisson, below 1 burstier, above 1 more even, as in vLLM's benchmark."),
    "size": N_("Requests at once; 0 = all of them at the start."),
    "every_s": N_("Seconds between two bursts."),
    "burst": N_("Requests of a burst, on average."),
    "silence_s": N_("Seconds of silence between bursts, on average."),
    "least_s": N_("The shortest silence in seconds."),
    "median": N_("Half of the lengths are below it, in tokens."),
    "sigma": N_("Spread of the logarithm: 0.3 is narrow, 1 is wide."),
    "low": N_("The shortest length in tokens."),
    "high": N_("The longest length in tokens."),
    "tokens": N_("Every length in tokens."),
    "short": N_("The short length in tokens."),
    "long": N_("The long length in tokens."),
    "share": N_("Share of the long ones, 0 to 1."),
    "spread": N_("Each length varies by this share up and down."),
    "mean": N_("Mean of the exponential in tokens, before the cap."),
    "cap": N_("Longer lengths are drawn again."),
}
"""What a field of a distribution means."""

FIELD_LABELS: Final = {
    "rate": N_("rate (1/s)"), "burstiness": N_("burstiness"), "size": N_("at once"), "every_s": N_("every (s)"),
    "burst": N_("burst size"), "silence_s": N_("silence (s)"), "least_s": N_("shortest (s)"), "median": N_("median"),
    "sigma": N_("sigma"), "low": N_("low"), "high": N_("high"), "tokens": N_("tokens"), "short": N_("short length"),
    "long": N_("long length"), "share": N_("share of long"), "spread": N_("spread"), "mean": N_("mean"),
    "cap": N_("cap"),
}  # fmt: skip

KIND_WORDS: Final = {
    "gamma": N_("gamma"), "poisson": N_("poisson"), "steady": N_("steady"), "burst": N_("burst"),
    "onoff": N_("on, off"),
    "lognormal": N_("lognormal"), "uniform": N_("uniform"), "fixed": N_("fixed"),
    "bimodal": N_("two lengths"), "capped-exponential": N_("exponential"),
}  # fmt: skip
"""What a distribution is called on the page; the key is its name in SPEC.toml."""


@dataclass(frozen=True, slots=True)
class ArmChoice:
    """A preset or ``LIVE``, and limits of one's own. None = as the preset has it."""

    preset: str
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """All that can be filled in. Lengths in tokens, times in seconds; None = not given.

    source: "style", "generate" or "file". arrivals, prompt, output: in their text forms. sizes: of chunks, as written.
    """

    kind: str = "ab"
    name: str = ""
    model: str = "toy"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    block_size: int = 16
    num_blocks: int = 192
    num_host_blocks: int = 64
    max_model_len: int = 512
    repeats: int = 4
    seed: int = 1
    source: str = "generate"
    style: str = "azure-conv"
    style_rate: float | None = None
    num_requests: int = 60
    arrivals: str = "gamma:rate=4.0,burstiness=1.0"
    prompt: str = "lognormal:median=80.0,sigma=0.8,low=4,high=400"
    output: str = "uniform:low=8,high=64"
    prompt_factor: float = 1.0
    output_factor: float = 1.0
    time_factor: float = 1.0
    a: ArmChoice = field(default_factory=lambda: ArmChoice("static"))
    b: ArmChoice = field(default_factory=lambda: ArmChoice("vllm-v1"))
    base: ArmChoice = field(default_factory=lambda: ArmChoice("vllm-v1"))
    allocation_off: str = "reserve_max"
    sizes: str = "16, 32, 64, 128, 256"
    long_prompt_len: int = 128
    ttft_s: float | None = 1.0
    tpot_s: float | None = 0.1
    e2e_s: float | None = None
    tuned: bool | None = None
    tuning: str = ""
    headline: str = "output_tokens_per_s"


def text_form(kind: str, values: Mapping[str, float]) -> str:
    """As "gamma:rate=4.0,burstiness=1.0"."""
    return f"{kind}:{','.join(f'{name}={value!r}' for name, value in values.items())}"


def sizes_of(text: str) -> tuple[int, ...]:
    """Whole numbers with commas or blanks between them. Raises SpecError."""
    words = text.replace(",", " ").split()
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in words):
        raise SpecError(f"chunk.sizes is {text[:80]!r}, expected whole numbers such as 16, 32, 64")
    return tuple(int(word) for word in words)


def spec_of(form: Form, live: SchedulerPolicy) -> Spec:
    """The experiment. Raises SpecError naming table and field of what cannot be; what a policy, a trace or the pool
    forbids is found later, by ``experiments.runs``."""
    data: dict[str, Any] = {
        "kind": form.kind,
        "name": form.name.strip(),
        "repeats": form.repeats,
        "seed": form.seed,
        "model": {
            name: getattr(form, name)
            for name in (
                "model", "device", "dtype", "threads", "block_size", "num_blocks", "num_host_blocks", "max_model_len"
            )
        },
        "trace": _trace(form),
        "slo": _given(ttft_s=form.ttft_s, tpot_s=form.tpot_s, e2e_s=form.e2e_s),
        "claim": _given(tuned=form.tuned, tuning=form.tuning.strip(), headline=form.headline),
    }  # fmt: skip
    tables = TABLES[form.kind]
    if "policy" in tables:
        data["policy"] = _arm(form.base, live)
    if form.kind == "ab":
        data["a"], data["b"] = _arm(form.a, live), _arm(form.b, live)
        data["a"]["label"], data["b"]["label"] = _labels(form.a, form.b)
    elif form.kind == "factorial":
        data["factorial"] = {"allocation_off": form.allocation_off}
    elif form.kind == "chunk":
        data["chunk"] = {"sizes": sizes_of(form.sizes), "long_prompt_len": form.long_prompt_len}
    try:
        return msgspec.convert(data, Spec)
    except msgspec.ValidationError as error:
        raise SpecError(str(error).replace("`$.", "`")) from error


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _trace(form: Form) -> dict[str, Any]:
    longest = min(form.max_model_len, form.num_blocks * form.block_size)
    scale: dict[str, Any] = {"max_model_len": longest}
    for name in ("prompt_factor", "output_factor", "time_factor"):
        if getattr(form, name) != 1:
            scale[name] = float(getattr(form, name))
    if form.source == "file":
        return {"file": UPLOAD_FILE, "scale": scale | {"max_requests": form.num_requests}}
    made: dict[str, Any] = {"num_requests": form.num_requests, "seed": form.seed}
    if form.source == "style":
        made |= _given(style=form.style, rate=form.style_rate)
    else:
        made |= {"arrivals": form.arrivals, "prompt": form.prompt, "output": form.output}
    return {"generate": made, "scale": scale}


def _arm(choice: ArmChoice, live: SchedulerPolicy) -> dict[str, Any]:
    own = _given(max_num_seqs=choice.max_num_seqs, max_num_batched_tokens=choice.max_num_batched_tokens)
    if choice.preset != LIVE:
        return {"preset": choice.preset, "set": own}
    start = PRESETS["vllm-v1"]
    names = [each.name for each in fields(SchedulerPolicy) if each.name not in PACE and each.name not in POOL_FIELDS]
    differs = {name: getattr(live, name) for name in names if getattr(live, name) != getattr(start, name)}
    return {"preset": "vllm-v1", "set": {name: v for name, v in differs.items() if v is not None} | own}


def _labels(a: ArmChoice, b: ArmChoice) -> tuple[str, str]:
    """Names of the arms: their presets, with what tells them apart behind where both are the same."""
    if a.preset != b.preset:
        return a.preset, b.preset
    marks = [f"{x.max_num_seqs or ''}.{x.max_num_batched_tokens or ''}".strip(".") for x in (a, b)]
    if marks[0] == marks[1] or not all(marks):
        return f"{a.preset}-a", f"{b.preset}-b"
    return f"{a.preset}-{marks[0]}", f"{b.preset}-{marks[1]}"


def toml_of(spec: Spec) -> bytes:
    """The spec as a SPEC.toml that ``python -m experiments run`` reads; what is not given is left out."""
    return msgspec.toml.encode(_without_none(msgspec.to_builtins(spec)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each not in (None, "")}
    return [_without_none(each) for each in value] if isinstance(value, (list, tuple)) else value
