"""What needs a new worker: model, dtype, device, threads, block size, pool sizes."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from dashboard.i18n import Translate
from dashboard.settings import DEVICES, DTYPES, MAX_BLOCKS, MAX_THREADS
from dashboard.visit import presenter_only
from model_runner.client import RunnerClient
from model_runner.config import DEFAULT_MODEL, TOY_MODEL, RunnerConfig

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64)


def restart_section(client: RunnerClient, t: Translate) -> None:
    """A form with one button. Nothing of it acts before the button."""
    config = client.config
    st.caption(
        t("These need a new engine. Unfinished requests are kept and go on from the tokens they have; none is lost.")
    )
    with st.form("restart", border=False):
        models = list(dict.fromkeys([DEFAULT_MODEL, TOY_MODEL, config.model]))
        model = st.selectbox(
            t("Model"), models, index=models.index(config.model), accept_new_options=True,
            help=t("A name, or a folder with a model in Hugging Face form."),
        )  # fmt: skip
        left, right = st.columns(2)
        sizes = sorted({*BLOCK_SIZES, config.block_size})
        size = left.selectbox(
            t("Block size"), sizes, index=sizes.index(config.block_size),
            help=t("Tokens per KV block. Small blocks waste less in the last one; large ones need fewer entries."),
        )  # fmt: skip
        blocks = right.number_input(
            t("Blocks in the pool"), 1, MAX_BLOCKS, config.num_blocks,
            help=t("More blocks hold more requests at once and take memory from the machine."),
        )  # fmt: skip
        host = st.number_input(
            t("Blocks in the host pool"), 0, MAX_BLOCKS, config.num_host_blocks,
            help=t("Room in host memory for requests that are swapped out. 0 = nothing can be swapped."),
        )  # fmt: skip
        left, right = st.columns(2)
        dtypes, devices = list(DTYPES), list(dict.fromkeys([*DEVICES, config.device]))
        dtype = left.selectbox(
            t("Data type"), dtypes, index=dtypes.index(config.dtype),
            help=t("bfloat16 halves the bytes of weights and KV cache and rounds more; auto measures which is faster."),
        )  # fmt: skip
        device = right.selectbox(
            t("Device"), devices, index=devices.index(config.device),
            help=t("auto takes a GPU where there is one. On the CPU the model shares the cores with this page."),
        )  # fmt: skip
        threads = st.number_input(
            t("Threads"), 0, MAX_THREADS, config.threads,
            help=t("0 = chosen at the start by a short measurement, at most all cores but one."),
        )  # fmt: skip
        pressed = st.form_submit_button(
            t("Restart the engine"), width="stretch",
            help=t("The engine is away for some seconds, and running requests compute their tokens again."),
        )  # fmt: skip
    if pressed:
        wanted = replace(config, model=str(model), block_size=int(size), num_blocks=int(blocks))
        wanted = replace(wanted, num_host_blocks=int(host))
        _restart(client, replace(wanted, dtype=dtype, device=device, threads=int(threads)))


@presenter_only
def _restart(client: RunnerClient, config: RunnerConfig) -> None:
    client.restart(config)
    st.session_state.pop("echo", None)
    st.rerun()
