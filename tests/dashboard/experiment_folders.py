"""Folders of experiments as ``python -m experiments run`` leaves them, their runs simulated in milliseconds."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from dashboard.experiments.form import Form, spec_of, toml_of
from experiments.record import encode_run
from experiments.runs.arms import arms_of, order_of_runs
from experiments.runs.driver import PoolShape
from experiments.runs.folder import Manifest, write_whole
from experiments.runs.progress import Progress
from experiments.runs.workload import trace_of
from experiments.virtual.cost import FittedCost
from experiments.virtual.simulate import simulate
from scheduler import SchedulerPolicy

COST = FittedCost((0.01, 0.001, 0.0, 0.0, 0.0, 0.0005, 1e-5, 0.002, 0.0, 0.0), "prices of a test")

TINY = Form(
    name="tiny <b>bold</b>", num_requests=24, repeats=2, num_blocks=40, max_model_len=128,
    arrivals="gamma:rate=20.0,burstiness=1.0", prompt="uniform:low=4,high=80", output="uniform:low=2,high=20",
    sizes="16, 32, 64, 128", long_prompt_len=60, tuned=False, tuning="presets as they are",
)  # fmt: skip


def experiment(root: Path, form: Form = TINY, *, runs: int | None = None) -> Path:
    """A folder with the first so many runs of the form's experiment; None = all."""
    spec = spec_of(form, SchedulerPolicy())
    trace, arms = trace_of(spec, Path()), {arm.label: arm for arm in arms_of(spec)}
    planned = order_of_runs(list(arms), spec.repeats)
    model = spec.model
    pool = PoolShape(model.num_blocks, model.block_size, model.max_model_len or 0, model.num_host_blocks)
    path = root / f"20260102-030405-{len(list(root.glob('*'))):03d}-{spec.kind}"
    (path / "runs").mkdir(parents=True)
    write_whole(path / "spec.toml", toml_of(spec))
    write_whole(path / "experiment.json", msgspec.json.encode(Manifest(spec, trace.sha256, planned)))
    made = planned[:runs]
    for each in made:
        # Another price for each repeat, so that there is a spread.
        cost = FittedCost((0.01 + 0.0002 * each.position, *COST.coefficients[1:]), COST.source)
        run = simulate(
            arms[each.label].policy, trace, cost, pool, label=each.label, repeat=each.repeat, position=each.position
        )
        write_whole(path / "runs" / each.file_name, encode_run(run))
    state = "done" if len(made) == len(planned) else "cancelled"
    progress = Progress(state, len(made), len(planned), updated_at=time.time())
    write_whole(path / "progress.json", msgspec.json.encode(progress))
    return path
