"""A run survives being written and read."""

from __future__ import annotations

from experiments.record import Conditions, RequestRow, Run, StepRow, decode_run, encode_run
from experiments.trace import Trace, TraceOrigin, TraceRequest
from scheduler import SchedulerPolicy, StepEvent
from scheduler.snapshot import Totals


def test_a_run_reads_back_as_it_was_written():
    origin = TraceOrigin("generated", "two requests", parameters=(("seed", "1"),))
    conditions = Conditions(
        "measured", "toy", "float32", "cpu", 1, 8, 16, 64, 0, 0, "2 requests", machine={"load": [0.5]}
    )
    row = RequestRow("a", 3, 2, 2, 0, "finished", "length", 0.1, 0.2, 0.2, (0.30000000000000004, 0.4), 0.4)
    step = StepRow(1, 0.2, 0.3, (("a", 3, "prefill"),), 3, 0, 0, 0, 0, 3, 1, 0, 1, 3, 0, 13, 0)
    event = StepEvent(1, 0.2, "admitted", "a", numbers={"num_blocks": 1, "waited_s": 0.1})
    run = Run(
        "a", 0, 0, SchedulerPolicy(), "t", "0", origin, conditions, (row,), (step,), (event,), Totals(steps=1), 0.4, 0.3
    )
    assert decode_run(encode_run(run)) == run


def test_the_hash_of_a_trace_is_of_its_requests_and_not_of_where_they_come_from():
    requests = (TraceRequest("a", 0.0, 3, 2),)
    one, other = Trace("one", requests, TraceOrigin("a", "")), Trace("other", requests, TraceOrigin("b", "x"))
    longer = Trace("one", (TraceRequest("a", 0.0, 3, 3),), TraceOrigin("a", ""))
    assert one.sha256 == other.sha256 != longer.sha256
