"""transformers' generate on left-padded batches: each batch runs to its longest output."""

from common import WARM_UP_REQUESTS, Stopwatch, arguments, report


def main():
    options, requests = arguments(("--batch-size", 16))
    import torch
    import transformers

    torch.set_num_threads(options.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=getattr(torch, options.dtype), attn_implementation="sdpa"
    ).eval()

    @torch.inference_mode()
    def run(batch):
        width, steps = max(len(row["prompt"]) for row in batch), max(row["output_len"] for row in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(batch):
            ids[index, width - len(row["prompt"]) :] = torch.tensor(row["prompt"])
            mask[index, width - len(row["prompt"]) :] = 1
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=steps,
            min_new_tokens=steps,
            do_sample=False,
            pad_token_id=0,
        )
        outputs = {row["id"]: out[i, width : width + row["output_len"]].tolist() for i, row in enumerate(batch)}
        return outputs, steps

    run(requests[:WARM_UP_REQUESTS])
    outputs, steps = {}, 0
    with Stopwatch() as watch:
        for start in range(0, len(requests), options.batch_size):
            found, count = run(requests[start : start + options.batch_size])
            outputs |= found
            steps += count
    name = f"transformers static batch {options.batch_size} {options.dtype}"
    report(options, name, transformers.__version__, watch, outputs, steps)


if __name__ == "__main__":
    main()
