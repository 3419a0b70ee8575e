"""The chapter's three check questions, with answers that lean on what was measured in this session."""

from __future__ import annotations

from typing import Final

from dashboard.i18n import N_
from dashboard.lesson.scene import Scene

CHECK: Final = N_("check question")

WHEN: Final = Scene(
    name="check_when",
    section=CHECK,
    title=N_("Check 1: why does continuous batching waste less on stragglers?"),
    look=(
        N_("Explain it by when the batch is rebuilt."),
        N_("The model answer below uses what scenes 1 and 2 have measured in this session."),
    ),
    question=N_("When does continuous batching rebuild the batch?"),
    choices=(
        N_("when all requests of the batch have ended"),
        N_("in every iteration"),
        N_("when the queue is empty"),
    ),
    answer=1,
    model_answer=(
        N_("A static batch is rebuilt only when its longest request has ended, so every shorter one holds its slot and "
           "computes padding until then."),
        N_("Continuous batching rebuilds it in every iteration: who has ended leaves at once, its KV blocks are taken "
           "back, and the next in the queue takes the slot."),
    ),
    based_on=("static", "rebuild"),
    not_shown=N_("The saving is as large as the lengths are unequal: with equal ones there is none (scene 10)."),
)  # fmt: skip

THREE: Final = Scene(
    name="check_three",
    section=CHECK,
    title=N_("Check 2: admission, preemption, allocation, and a conflict"),
    look=(
        N_("Define each of the three in one line, and give an example in which they work against each other."),
        N_("The model answer below uses what scenes 3, 4, 5 and 8 have measured in this session."),
    ),
    question=N_("Admission lets more requests in. What can happen to preemption?"),
    choices=(
        N_("nothing, they are separate decisions"),
        N_("it happens more often, because KV blocks run out"),
        N_("it happens less often, because the batch is full"),
    ),
    answer=1,
    model_answer=(
        N_("Admission: who of the queue is let into the batch of this iteration. Preemption: who of those that run is "
           "taken out to make room. Allocation: how KV blocks are given to those that stay."),
        N_("A conflict: admission fills every slot for utilisation, the requests grow, the blocks run out, and "
           "preemption throws away work that has to be done again."),
    ),
    based_on=("admission", "preemption", "allocation", "conflict"),
    not_shown=N_("Separate decisions are not independent: a better number for one of them may be paid by another."),
)  # fmt: skip

TRUST: Final = Scene(
    name="check_trust",
    section=CHECK,
    title=N_("Check 3: “continuous batching was X % faster”: under which conditions?"),
    look=(
        N_("Name what must be published with such a sentence before anybody can trust it."),
        N_("The list below is filled with the conditions of what was measured in this session."),
    ),
    question=N_("Which of these is enough to trust the sentence?"),
    choices=(
        N_("the version of the engine"),
        N_("model, device and precision"),
        N_("model, hardware, versions, workload, settings of both sides, load and number of samples"),
    ),
    answer=2,
    model_answer=(
        N_("Model and precision; device and software versions; the workload (lengths of prompts and answers, arrivals, "
           "seed); the settings of both sides (slots, budget, chunks, KV blocks, preemption); what was measured (which "
           "latency, which percentile, of how many samples); and that both sides had the same requests."),
        N_("Then ask which decision was improved: admission, preemption, or allocation."),
    ),
    based_on=("static", "unshown", "starve", "chunks"),
    not_shown=N_("Even with all conditions named, the figure holds for them and for no other workload."),
)  # fmt: skip
