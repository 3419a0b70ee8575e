"""Sampling: what the parameters promise, and independence from everything but seed and number."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch

from model_runner import sampler as sampler_module
from model_runner.errors import StepError
from model_runner.sampler import Sampler, truncate, uniform
from scheduler import Request, SamplingParams
from tests.model_runner.tape import Tape

VOCAB = 2000


def logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 2


def sampler_with(params: dict[str, SamplingParams], eos: tuple[int, ...] = ()) -> Sampler:
    sampler = Sampler(eos, default_seed=0)
    sampler.add([Request(name, (1, 2, 3), sampling) for name, sampling in params.items()])
    return sampler


def test_greedy_is_the_largest_logit() -> None:
    values = logits(3)
    sampler = sampler_with({name: SamplingParams() for name in "abc"})
    assert list(sampler.sample("abc", values).values()) == values.argmax(-1).tolist()


@pytest.mark.parametrize("vocab_size", [64, 2048, 2000, 7])
def test_of_equal_logits_the_lowest_id_is_taken_whatever_the_vocabulary(vocab_size: int) -> None:
    values = torch.randint(0, 4, (5, vocab_size), generator=torch.Generator().manual_seed(3)).float()
    sampler = sampler_with({name: SamplingParams() for name in "abcde"})
    rows = values.tolist()
    assert list(sampler.sample("abcde", values).values()) == [row.index(max(row)) for row in rows]


def test_frequencies_follow_the_softmax() -> None:
    """Chi-square of 20,000 draws over 8 tokens: 7 degrees of freedom, 1 in 10,000 is above 29.9."""
    values = torch.tensor([2.0, 1.0, 0.5, 0.0, -0.5, -1.0, 1.5, 0.2])
    temperature, draws = 0.7, 20_000
    names = [str(i) for i in range(draws)]
    sampler = sampler_with({name: SamplingParams(temperature=temperature, seed=i) for i, name in enumerate(names)})
    tokens = torch.tensor(list(sampler.sample(names, values.repeat(draws, 1)).values()))
    expected = torch.softmax(values / temperature, -1) * draws
    observed = torch.bincount(tokens, minlength=8)
    assert float(((observed - expected) ** 2 / expected).sum()) < 29.9


def test_a_draw_depends_on_seed_and_number_only() -> None:
    values = logits(5)
    params = {name: SamplingParams(temperature=1.0, seed=i) for i, name in enumerate("abcde")}
    together = sampler_with(params).sample("abcde", values.clone())
    for row, name in enumerate("edcba"):
        own = 4 - row
        assert sampler_with(params).sample(name, values[own : own + 1].clone()) == {name: together[name]}


def test_numbers_are_uniform_and_do_not_repeat() -> None:
    numbers = torch.tensor([uniform(seed, k) for seed in range(-50, 50) for k in range(100)], dtype=torch.float64)
    assert len(numbers.unique()) == len(numbers)
    assert 0 <= float(numbers.min()) < 1e-3
    assert 0.999 < float(numbers.max()) < 1
    ordered = numbers.sort().values
    # Kolmogorov-Smirnov, 10,000 numbers: 1 in 10,000 is above 0.0223.
    assert float((ordered - torch.arange(10_000) / 10_000).abs().max()) < 0.0223


def reference_truncate(row: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """vLLM's rule, token by token: keep the k largest, renormalize, then the smallest set of mass p."""
    order = sorted(range(len(row)), key=lambda i: -row[i])[:top_k]
    total = sum(float(row[i]) for i in order)
    kept, mass = [], 0.0
    for i in order:
        if mass >= top_p * total and kept:
            break
        kept.append(i)
        mass += float(row[i])
    out = torch.zeros_like(row)
    out[kept] = row[kept]
    return out


def forced(candidates, as_on, *arguments, ask):
    return candidates(*arguments, ask=as_on)


@pytest.mark.parametrize("ask", [True, False])
@pytest.mark.parametrize("flat", [True, False])
def test_top_k_and_top_p_keep_what_the_rule_says(monkeypatch: pytest.MonkeyPatch, flat: bool, ask: bool) -> None:
    """ask: False is the way of a GPU, which must not wait for a number of the device; the tape refuses that."""
    monkeypatch.setattr(sampler_module, "_candidates", partial(forced, sampler_module._candidates, ask))
    values = logits(6) * (0.01 if flat else 1.0)
    probabilities = torch.softmax(values.double(), -1)
    top_k, top_p = [5, VOCAB, 400, VOCAB, 1, 3], [1.0, 0.9, 0.5, 0.01, 1.0, 0.6]
    with nullcontext() if ask else Tape():
        found = truncate(probabilities, torch.tensor(top_k), torch.tensor(top_p, dtype=torch.float64))
    for row in range(6):
        assert torch.equal(found[row], reference_truncate(probabilities[row], top_k[row], top_p[row]))


def test_repetition_penalty_is_that_of_ctrl() -> None:
    """Positive logits are divided, negative ones multiplied, for tokens of the prompt and of earlier output."""
    values = torch.full((1, 8), -5.0)
    values[0, [1, 2, 5, 6]] = torch.tensor([3.0, -1.0, 2.5, 2.4])
    sampler = sampler_with({"a": SamplingParams(repetition_penalty=2.0)})
    assert sampler.sample("a", values.clone()) == {"a": 5}
    assert sampler.sample("a", values.clone()) == {"a": 6}
    assert sampler.sample("a", values.clone()) == {"a": 1}


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_f63_no_end_before_min_tokens_counted_in_output_only(ignore_eos: bool) -> None:
    end, stop, other = 7, 9, 4
    values = torch.zeros(1, 16)
    values[0, [end, stop, other]] = torch.tensor([9.0, 8.0, 1.0])
    params = SamplingParams(min_tokens=3, stop_token_ids=(stop,), ignore_eos=ignore_eos)
    sampler = sampler_with({"a": params}, eos=(end,))
    drawn = [sampler.sample("a", values.clone())["a"] for _ in range(4)]
    assert drawn == ([end] * 4 if ignore_eos else [other, other, other, end])


def test_f63_tokens_of_an_earlier_life_count() -> None:
    values = torch.zeros(1, 16)
    values[0, 7] = 9.0
    sampler = Sampler((7,), default_seed=0)
    sampler.add([Request("a", (1,), SamplingParams(min_tokens=3), prior_output_token_ids=(4, 4, 4))])
    assert sampler.sample("a", values) == {"a": 7}


def test_an_unknown_request_is_named() -> None:
    with pytest.raises(StepError, match="'ghost'"):
        sampler_with({}).sample(["ghost"], logits(1))


def test_state_is_dropped_with_its_request() -> None:
    sampler = sampler_with({"a": SamplingParams(), "b": SamplingParams()})
    sampler.drop(["a", "never seen"])
    assert len(sampler) == 1
