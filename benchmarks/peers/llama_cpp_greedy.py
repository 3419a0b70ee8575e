"""llama.cpp by its own C interface: all requests at once as sequences of one batch, greedy, no sampling library.

Prompts go in batches of 512 tokens, then every step decodes one token of each sequence: what its server does for those
that arrive together. Needs the package llama-cpp-python; --model is a GGUF file.
"""

import ctypes

from common import WARM_UP_TOKENS, Stopwatch, arguments, report

BATCH = 512


def open_context(llama, path, sequences, length, threads):
    llama.llama_backend_init()
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = sequences * length, BATCH, BATCH
    params.n_seq_max, params.n_threads, params.n_threads_batch = sequences, threads, threads
    return model, llama.llama_init_from_model(model, params), quiet


def decode(llama, context, batch, rows):
    """rows: (token, position, sequence, wanted). Returns the most likely next token of each wanted row."""
    import numpy as np

    batch.n_tokens = len(rows)
    for index, (token, position, sequence, wanted) in enumerate(rows):
        batch.token[index], batch.pos[index], batch.logits[index] = token, position, wanted
        batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
    if llama.llama_decode(context, batch):
        raise SystemExit("llama_decode failed")
    vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(llama.llama_get_model(context)))
    found = {}
    for index, row in enumerate(rows):
        if row[3]:
            logits = llama.llama_get_logits_ith(context, index)
            found[row[2]] = int(np.ctypeslib.as_array(logits, shape=(vocab,)).argmax())
    return found


def main():
    options, requests = arguments()
    import llama_cpp as llama

    longest = max(len(row["prompt"]) + row["output_len"] for row in requests)
    _model, context, _quiet = open_context(llama, options.model, len(requests), longest + 8, options.threads)
    batch = llama.llama_batch_init(BATCH, 0, 1)

    def run(output_len, watch):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        pending = [
            (token, position, sequence, position == len(row["prompt"]) - 1)
            for sequence, row in enumerate(requests)
            for position, token in enumerate(row["prompt"])
        ]
        last = {}
        for start in range(0, len(pending), BATCH):
            last |= decode(llama, context, batch, pending[start : start + BATCH])
        outputs = {sequence: [token] for sequence, token in last.items()}
        while True:
            rows = [
                (tokens[-1], len(requests[s]["prompt"]) + len(tokens) - 1, s, True)
                for s, tokens in outputs.items()
                if len(tokens) < min(output_len, requests[s]["output_len"])
            ]
            if not rows:
                return {requests[s]["id"]: tokens for s, tokens in outputs.items()}
            for sequence, token in watch.step(lambda rows=rows: decode(llama, context, batch, rows)).items():
                outputs[sequence].append(token)

    run(WARM_UP_TOKENS, Stopwatch())
    longest_output = max(row["output_len"] for row in requests)
    with Stopwatch() as watch:
        outputs = run(longest_output, watch)
    report(options, "llama.cpp", llama.__version__, watch, outputs, len(watch.steps))


if __name__ == "__main__":
    main()
