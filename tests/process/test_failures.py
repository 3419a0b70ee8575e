"""What a machine can run out of and a disk can hold by mistake: each ends in a state that says so, never in a hang."""

from __future__ import annotations

import errno
import json
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from helpers import QUIET, TOY, length, wait_until
from safetensors.torch import save_file

from model_runner import model_cache
from model_runner.client import RunnerClient
from model_runner.config import RunnerConfig
from model_runner.model_cache import cache_problem, store
from model_runner.process_memory import available_bytes
from model_runner.toy import toy_config, toy_weights
from model_runner.views import ClientState
from model_runner.worker_process import DEFAULT_COMMAND
from scheduler import SchedulerPolicy

START_S = 100.0
"""Of a real worker, on a machine that does much else."""


def state_after_start(config: RunnerConfig, command: tuple[str, ...] = DEFAULT_COMMAND) -> ClientState:
    with RunnerClient(config, traffic=QUIET, worker_command=command) as client:
        wait_until(lambda: client.state.phase in ("failed", "idle"), START_S, "failed or live")
        return client.state


def limited(kib: int) -> tuple[str, ...]:
    """The real worker with a limited address space."""
    return ("/bin/sh", "-c", f'ulimit -v {kib}; exec "$0" "$@"', *DEFAULT_COMMAND)


def model_folder(folder: Path) -> Path:
    fields = {
        "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "vocab_size": 258, "hidden_size": 64,
        "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "eos_token_id": 257,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(fields))
    save_file(toy_weights(toy_config(), 0), str(folder / "model.safetensors"))
    return folder


@pytest.mark.process
def test_more_blocks_than_memory_is_said_and_tried_once() -> None:
    state = state_after_start(RunnerConfig(model="toy", dtype="float32", threads=1, num_blocks=10**9))
    assert state.phase == "failed"
    assert state.restarts == 0
    assert "num_blocks is 1000000000" in state.message


@pytest.mark.process
def test_memory_limited_below_the_kv_cache_is_said_and_tried_once() -> None:
    """1.5 GiB of KV cache in 2 GiB of address space, of which PyTorch needs more than half."""
    config = RunnerConfig(model="toy", dtype="float32", threads=1, num_blocks=200_000)
    state = state_after_start(config, limited(2 * 2**20))
    assert state.phase == "failed"
    assert "num_blocks" in state.message
    assert state.restarts == 0


@pytest.mark.process
def test_memory_limited_below_pytorch_itself_ends_in_failed_with_what_the_worker_said() -> None:
    state = state_after_start(TOY, limited(300 * 2**10))
    assert state.phase == "failed"
    assert state.message
    assert state.detail


@pytest.mark.process
def test_memory_that_ends_in_a_step_is_a_state_and_no_hang() -> None:
    command = (sys.executable, str(Path(__file__).parent / "starved_worker.py"))
    config = RunnerConfig(model="toy", dtype="float32", threads=1, num_blocks=256, max_model_len=2048)
    policy = SchedulerPolicy(max_num_batched_tokens=2048, enable_chunked_prefill=True)
    with RunnerClient(config, policy, traffic=QUIET, worker_command=command) as client:
        wait_until(lambda: client.state.phase == "idle", START_S, "live")
        assert client.submit(tuple(40 + i % 60 for i in range(2000)), length(4)).accepted
        wait_until(lambda: client.state.phase == "failed", START_S, "failed")
        assert "memory" in client.state.message.lower()


@pytest.mark.process
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: cut(folder / "model.safetensors"), "model.safetensors: damaged or cut short"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: the file is missing"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json: cannot be read as JSON"),
    ],
)
def test_a_damaged_model_folder_is_named_on_the_page_and_tried_once(damage, said, tmp_path: Path) -> None:
    damage(model_folder(tmp_path))
    state = state_after_start(RunnerConfig(model=str(tmp_path), dtype="float32", threads=1, num_blocks=8))
    assert (state.phase, state.restarts) == ("failed", 0)
    assert said in state.message


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


class Converted:
    """Stands for a converted model: a file of its own content, which may fill the disk."""

    def __init__(self, content: bytes = b"weights", full: bool = False, meet: threading.Barrier | None = None) -> None:
        self._content, self._full, self._meet = content, full, meet

    def write(self, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(self._content)
        if self._meet is not None:
            self._meet.wait(30)
        if self._full:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_fills_while_converting_leaves_nothing_that_could_be_taken_for_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "smollm2"
    with pytest.raises(OSError, match="No space left"):
        store(Converted(full=True), folder)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    store(Converted(), folder)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left"):
        store(Converted(b"other", full=True), folder)  # type: ignore[arg-type]
    assert cache_problem(folder) == ""
    assert (folder / "model.safetensors").read_bytes() == b"weights"


def test_who_converts_at_the_same_time_gets_one_whole_model(tmp_path: Path) -> None:
    folder, meet, problems = tmp_path / "smollm2", threading.Barrier(4), []

    def convert() -> None:
        try:
            store(Converted(meet=meet), folder)  # type: ignore[arg-type]
            problems.append(cache_problem(folder))
        except OSError as error:
            problems.append(str(error))

    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == [""] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["smollm2"]


@pytest.mark.process
@pytest.mark.model
def test_two_dashboards_that_start_cold_share_one_cache_and_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(model_cache.CACHE_VARIABLE, str(tmp_path))
    config = RunnerConfig(dtype="bfloat16", threads=1, num_blocks=16)
    with ExitStack() as stack:
        clients = [stack.enter_context(RunnerClient(config, traffic=QUIET)) for _ in range(2)]
        for client in clients:
            wait_until(lambda client=client: client.state.phase in ("idle", "failed"), 150, "live")
            assert client.state.phase == "idle", client.state
            assert client.latest.info.model_note == ""
        assert len({client.latest.info.pid for client in clients}) == 2
        ids = [client.submit((1, 2, 3), length(3)).request_id for client in clients]
        for client, request_id in zip(clients, ids, strict=True):
            wait_until(lambda client=client, i=request_id: client.request(i).outcome, 60, "ended")
    (folder,) = tmp_path.iterdir()
    assert cache_problem(folder) == ""


@pytest.mark.parametrize(
    ("meminfo", "limit", "used", "available"),
    [
        ("MemTotal: 9 kB\nMemAvailable: 5 kB\n", None, None, 5120),
        ("MemAvailable: 5 kB\n", "max", "100", 5120),
        ("MemAvailable: 5 kB\n", "3000", "1000", 2000),
        ("MemAvailable: 5 kB\n", "1000", "3000", 0),
        ("", None, None, None),
    ],
)
def test_available_memory_is_the_machine_s_or_what_the_group_leaves(
    meminfo: str, limit: str | None, used: str | None, available: int | None, tmp_path: Path
) -> None:
    (tmp_path / "meminfo").write_text(meminfo)
    if limit is not None and used is not None:
        (tmp_path / "memory.max").write_text(limit)
        (tmp_path / "memory.current").write_text(used)
    assert available_bytes(tmp_path / "meminfo", tmp_path) == available


def test_a_weights_file_cut_short_after_loading_harms_nobody(tmp_path: Path) -> None:
    from model_runner.loader import load_folder

    weights = load_folder(model_folder(tmp_path), lambda *_: None).weights
    name = "model.layers.0.mlp.down_proj.weight"
    tensor = weights(name)
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(0)
    assert torch.equal(tensor, toy_weights(toy_config(), 0)[name])
