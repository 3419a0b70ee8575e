"""Everything that happens on the device happens in ``ModelRunner``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import torch

from model_runner.attention import AttentionShape
from model_runner.attention_choice import AttentionChoice, choose_attention
from model_runner.config import RunnerConfig
from model_runner.decode_batch import CudaGraphs, DecodeBatches, Record, batch_sizes
from model_runner.device import DeviceChoice, DeviceTimer, apply_threads, choose_device, is_out_of_memory
from model_runner.errors import RunnerConfigError, StepError, first_line
from model_runner.host_pool import HostPool
from model_runner.inputs import InputBuilder
from model_runner.kv_cache import KVCache, bytes_per_token
from model_runner.loader import LoadedModel, Progress
from model_runner.model import LlamaModel
from model_runner.model_config import ModelConfig
from model_runner.opening import choose_for_model, open_model
from model_runner.process_memory import give_back_free_memory
from model_runner.sampler import Sampler
from model_runner.start_measurement import StartTiming
from model_runner.tokenizer import Tokenizer
from scheduler import BlockMove, ScheduleStep, StepResult, StepTimings


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What was loaded. Fields are those of ``messages.EngineInfo``, without what belongs to the process.

    start_timings: what dtype and threads were chosen from; empty = they were asked for.
    """

    model: str
    model_note: str
    num_parameters: int
    device: str
    dtype: str
    threads: int
    block_size: int
    num_blocks: int
    max_model_len: int
    kv_bytes_per_token: int
    weight_bytes: int
    torch_version: str
    is_toy: bool
    num_host_blocks: int
    host_pool_bytes: int
    attention: str
    attention_note: str
    decode_batches: tuple[int, ...] = ()
    start_timings: tuple[StartTiming, ...] = ()


class ModelRunner:
    """A model on its device, its paged KV cache and its sampler. One thread uses it."""

    def __init__(
        self,
        loaded: LoadedModel,
        config: RunnerConfig,
        choice: DeviceChoice,
        progress: Progress,
        attention: AttentionChoice | None = None,
    ) -> None:
        """attention: None = chosen by trying what there is."""
        max_model_len = resolve_max_model_len(config, loaded.config)
        self.tokenizer: Tokenizer = loaded.tokenizer
        self.eos_token_ids: tuple[int, ...] = loaded.config.eos_token_ids
        self.vocab_size: int = loaded.config.vocab_size
        self._device = choice.device
        self._attention = attention or _attention_for(loaded.config, config, choice)
        self._model = LlamaModel(
            loaded.config, loaded.weights, choice.device, choice.dtype, max_model_len, progress, self._attention.plan
        )
        self.cache = KVCache(
            loaded.config,
            config.num_blocks,
            config.block_size,
            choice.device,
            choice.dtype,
            heads_first=self._attention.heads_first,
        )
        self._decodes: DecodeBatches | None = None
        self._timer = DeviceTimer(choice.device)
        self.host_pool = HostPool(self.cache, config.num_host_blocks)
        self._inputs = InputBuilder(config.block_size, max_model_len, choice.device)
        self._sampler = Sampler(self.eos_token_ids, config.seed)
        self.info = ModelInfo(
            model=loaded.name,
            model_note=loaded.note,
            num_parameters=self._model.num_parameters,
            device=str(choice.device),
            dtype=choice.dtype_name,
            threads=choice.threads,
            block_size=config.block_size,
            num_blocks=config.num_blocks,
            max_model_len=max_model_len,
            kv_bytes_per_token=bytes_per_token(loaded.config, choice.dtype),
            weight_bytes=self._model.weight_bytes,
            torch_version=torch.__version__,
            is_toy=loaded.is_toy,
            num_host_blocks=config.num_host_blocks,
            host_pool_bytes=self.host_pool.num_bytes,
            attention=self._attention.path,
            attention_note=self._attention.note,
            start_timings=choice.timings,
        )

    @property
    def num_requests(self) -> int:
        """Requests of which something is kept; none once all have ended and a step has said so."""
        return len(self._sampler)

    @classmethod
    def load(
        cls,
        config: RunnerConfig,
        progress: Progress | None = None,
        known: Mapping[tuple[str, int], float] = MappingProxyType({}),
    ) -> ModelRunner:
        """Load the model named in the config and run it once, so that the first request does not pay for it.

        progress is told (stage, fraction, message); stages are "measure", "convert", "load", "tokenizer", "warmup".
        known: figures of an earlier start, see ``choose_for_model``.
        Raises RunnerError of a kind that says what is wrong: RunnerConfigError, ModelNotFoundError, ModelFormatError.
        """
        report = progress or _ignore
        choice = choose_device(config)
        try:
            choice = choose_for_model(config, report, known)
            apply_threads(choice)
            runner = cls(open_model(config, choice, report), config, choice, report)
            report("warmup", 0.0, "compiling products")
            give_back_free_memory()
            runner._warm_up()
            if choice.device.type == "cuda":
                report("warmup", 0.5, "recording decode steps")
                runner.record_decodes(CudaGraphs())
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise RunnerConfigError(
                f"device is {choice.device}, model is {config.model!r}: the memory does not hold its weights in "
                f"{choice.dtype_name} beside num_blocks = {config.num_blocks}; a smaller model or fewer blocks would "
                f"do ({first_line(error)})"
            ) from error
        give_back_free_memory()
        report("warmup", 1.0, "ready")
        return runner

    def record_decodes(self, record: Record) -> None:
        """Make decode steps of fixed shapes ready, where the attention in use has them.

        When they cannot be recorded, ``info.attention_note`` says why, and every step is launched piece by piece.
        """
        if self._attention.kernel is None:
            return
        sizes = batch_sizes(self.info.num_blocks)
        decodes = DecodeBatches(self._model, self.cache, self._attention.kernel, sizes, self.info.max_model_len)
        try:
            decodes.record(record)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            note = f"{self.info.attention_note}; decode steps could not be recorded: {first_line(error)}"
            self.info = replace(self.info, attention_note=note)
            return
        self._decodes = decodes
        self.info = replace(self.info, decode_batches=sizes)

    @torch.inference_mode()
    def execute(self, step: ScheduleStep) -> StepResult:
        """Move blocks, compute, and sample one token for each of ``step.sampling_ids``.

        All moves out come before all moves in, for those may go to blocks that have just been emptied, and both before
        anything is computed, because a block may have a new owner in the same step. Raises StepError when the step
        contradicts itself or names a request that was never new.
        """
        swap_out_s = self._timed_move(self.host_pool.move_out, step.swapped_out)
        swap_in_s = self._timed_move(self.host_pool.move_in, step.swapped_in)
        started = time.perf_counter()
        self._sampler.drop(step.finished)
        self._sampler.add(step.new_requests)
        self._inputs.forget((*step.finished, *step.preempted))
        timings = StepTimings(build_s=time.perf_counter() - started, swap_out_s=swap_out_s, swap_in_s=swap_in_s)
        sampled: dict[str, int] = {}
        if not step.is_empty:
            try:
                sampled, timings = self._compute(step, started, timings)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                tokens = sum(step.num_scheduled_tokens.values()) + sum(step.num_padding_tokens.values())
                raise StepError(
                    f"out of memory on {self._device} in a step of {tokens} tokens; restart the runner with fewer "
                    f"num_blocks, or a lower max_num_batched_tokens ({first_line(error)})"
                ) from error
        return StepResult(step.step_id, sampled, timings)

    def _compute(self, step: ScheduleStep, started: float, timings: StepTimings) -> tuple[dict[str, int], StepTimings]:
        """Tokens, and the timings with those of the computation. Only token ids come back from the device."""
        rows = self._inputs.rows(step)
        if self._decodes is not None and self._decodes.takes(rows):
            forward = partial(self._decodes.run, rows)
        else:
            forward = partial(self._model.forward, rows.on(self._device), self.cache)
        built = time.perf_counter()
        self._timer.start()
        logits = forward()
        self._timer.stop()
        sampled = self._sampler.sample(step.sampling_ids, logits)
        if not sampled:
            self._synchronize()  # else the tokens have been waited for
        ended, execute_s = time.perf_counter(), self._timer.seconds()
        return sampled, replace(
            timings, build_s=built - started, execute_s=execute_s, sample_s=max(0.0, ended - built - execute_s)
        )

    def close(self) -> None:
        """Give the memory back. The runner cannot be used afterwards."""
        self._decodes = None
        self.cache.release()
        self.host_pool.release()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _timed_move(self, move: Callable[[Sequence[BlockMove]], None], moves: Sequence[BlockMove]) -> float:
        """Seconds the copies took; taking the host pool's memory, which happens once, is not counted among them."""
        if not moves:
            return 0.0
        self.host_pool.reserve()
        started = time.perf_counter()
        move(moves)
        self._synchronize()
        return time.perf_counter() - started

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _warm_up(self) -> None:
        """Every size of product, then a step of padding only: it runs every layer and leaves nothing behind."""
        self._model.warm_up(self.cache)
        name = "warm-up"
        self.execute(ScheduleStep(step_id=-1, policy_version=0, time=0.0, num_padding_tokens={name: 1}))
        self._inputs.forget((name,))


def _attention_for(model: ModelConfig, config: RunnerConfig, choice: DeviceChoice) -> AttentionChoice:
    kv_heads = model.num_key_value_heads
    shape = AttentionShape(
        num_pages=config.num_blocks + 1,
        block_size=config.block_size,
        kv_heads=kv_heads,
        group=model.num_attention_heads // kv_heads,
        device=choice.device,
        dtype=choice.dtype,
    )
    return choose_attention(shape, model.head_dim)


def resolve_max_model_len(config: RunnerConfig, model: ModelConfig) -> int:
    """The limit in force: what was asked for, or the most that model and KV cache allow.

    Raises RunnerConfigError naming the field that cannot be met.
    """
    for name, least in (("block_size", 1), ("num_blocks", 1), ("num_host_blocks", 0)):
        value = getattr(config, name)
        if value < least:
            raise RunnerConfigError(f"{name} is {value}; it must be {least} or more")
    asked = config.max_model_len
    if asked is None:
        return max(2, min(model.max_position_embeddings, config.num_blocks * config.block_size))
    if not 2 <= asked <= model.max_position_embeddings:
        raise RunnerConfigError(f"max_model_len is {asked}; this model allows 2 .. {model.max_position_embeddings}")
    return asked


def _ignore(stage: str, fraction: float, message: str) -> None:
    """Nobody is told."""
