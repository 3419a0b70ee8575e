"""Policies of one's own: found in a folder, held to the rules while they run, replaced where they break one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import Request, SchedulerPolicy, choices, custom, problems
from scheduler.__main__ import main
from scheduler.ordering import ORDERS
from scheduler.policy import with_known_values
from scheduler.registry import REGISTRIES
from tests.scheduler.helpers import Bench, bench, request
from tests.scheduler.own_files import registries_restored
from tests.scheduler.trace_driver import run_trace

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

VICTIM = """
from scheduler import VictimRule
class Mine(VictimRule):
    "One line for the page."
    name = "mine"
    def choose(self, candidates, draft):
        {body}
"""
ORDER = """
from scheduler import AdmissionOrder
class Mine(AdmissionOrder):
    name = "mine"
    calls = 0
    def key(self, seq):
        {body}
"""

Load = Callable[..., Path]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Write files into a folder and load it; what they registered is gone after the test."""

    def written(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        custom.load(tmp_path)
        return tmp_path

    with registries_restored():
        yield written


def crowd(**policy: object) -> Bench:
    """Three requests that outgrow a pool together; each would fit alone."""
    return bench([request(name, 7, 14) for name in "abc"], num_blocks=9, **policy)


def refusals(made: Bench) -> list[tuple[int, str]]:
    """(step id, reason) of each refused proposal; every one is counted, and at most one comes a step and rule."""
    found = [(event.step_id, event.reason) for event in made.events("policy_refused")]
    assert made.scheduler.totals.refused_proposals == len(found)
    assert len({step for step, _ in found}) == len(found)
    return found


def plans(made: Bench) -> list[tuple[dict[str, int], tuple[str, ...]]]:
    return [(dict(step.num_scheduled_tokens), step.preempted) for step in made.steps]


def test_a_rule_from_a_file_is_offered_with_its_description_and_decides(load: Load) -> None:
    load(rule=VICTIM.format(body="return candidates[0]"))
    assert custom.faults() == ()
    assert custom.loaded() == (custom.OwnPolicy("preemption_victim", "mine", "One line for the page.", "rule.py"),)
    assert choices("preemption_victim")[-1] == "mine"
    assert REGISTRIES["preemption_victim"].description("mine") == "One line for the page."
    made = crowd(preemption_victim="mine")
    made.drain()
    first = made.events("preempted")[0]
    assert (first.request_id, first.reason) == ("a", "mine")
    builtin = {}
    for victim in ("newest", "lowest_priority", "most_blocks", "least_computed"):
        other = crowd(preemption_victim=victim)
        other.drain()
        builtin[victim] = other.events("preempted")[0].request_id
    assert builtin["newest"] == "c"
    assert refusals(made) == []


def test_an_order_from_a_file_decides_who_is_next_and_can_be_put_in_force_while_requests_wait(load: Load) -> None:
    load(order=ORDER.format(body="return -seq.num_prompt_tokens"))
    prompts = {"a": 5, "b": 2, "c": 9, "d": 7, "e": 9}
    made = bench([request(name, size, 2) for name, size in prompts.items()], num_blocks=16, max_num_seqs=1)
    made.step()
    assert made.scheduler.set_policy(replace(made.scheduler.policy, admission_order="mine")).accepted
    made.drain()
    assert [name for step in made.steps for name in step.new] == ["a", "c", "e", "d", "b"]
    assert refusals(made) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise KeyError('no such thing')", "choose() raised KeyError: 'no such thing', line 7"),
        ("raise SystemExit(3)", "choose() raised SystemExit: 3, line 7"),
        ("return None", "choose() returned None, expected one of its 3 candidates"),
        ("return 'a'", "choose() returned 'a', expected one of its 3 candidates"),
        ("return object()", "choose() returned an object of type object, expected one of its 3 candidates"),
        ("candidates[0].num_tokens = 0", "choose() raised AttributeError: num_tokens cannot be set"),
        ("return candidates[0].block_table.clear()", "choose() raised AttributeError: 'tuple'"),
        ("candidates[0].token_ids.clear()", "choose() raised AttributeError: 'token_ids' cannot be read here"),
        ("draft.evict(None, candidates[0])", "choose() raised AttributeError: 'evict' cannot be read here"),
        ("draft.view.running.clear()", "choose() raised AttributeError: 'running' cannot be read here"),
        ("return candidates.pop()", "choose() raised AttributeError: 'tuple'"),
        ("return self.choose(candidates, draft)", "choose() raised RecursionError"),
    ],
)
def test_what_a_victim_rule_may_not_do_is_refused_and_the_newest_goes(load: Load, body: str, reason: str) -> None:
    load(rule=VICTIM.format(body=body))
    made, builtin = crowd(preemption_victim="mine"), crowd(preemption_victim="newest")
    made.drain()
    builtin.drain()
    assert plans(made) == plans(builtin)
    found = refusals(made)
    assert {step for step, _ in found} == {event.step_id for event in made.events("preempted")}
    assert found[0][1].startswith(f"preemption_victim mine (rule.py): {reason}")
    assert found[0][1].endswith("; newest decides in this step")


def test_a_rule_that_keeps_a_candidate_of_an_earlier_step_is_refused(load: Load) -> None:
    load(rule=VICTIM.format(body="self.kept = getattr(self, 'kept', candidates[-1]); return self.kept"))
    made = crowd(preemption_victim="mine")
    made.drain()
    assert len(refusals(made)) == len(made.events("preempted")) - 1
    assert refusals(made)[0][1].startswith(
        "preemption_victim mine (rule.py): choose() returned request 'c', expected one of"
    )


def test_a_rule_that_would_evict_the_same_two_in_turn_for_ever_lets_everything_end(load: Load) -> None:
    load(rule=VICTIM.format(body="return candidates[0]"))
    made = bench([request(name, 8, 9) for name in "abcdef"], num_blocks=5, preemption_victim="mine")
    made.drain(limit=600)
    assert set(made.ends()) == set("abcdef")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise ValueError(seq.request_id)", "key() raised ValueError: a, line 7"),
        ("return None", "key(a) has None, expected a number or a tuple of numbers"),
        ("return seq.request_id", "key(a) has 'a', expected a number or a tuple of numbers"),
        ("return float('nan')", "key(a) has nan, expected a number or a tuple of numbers"),
        ("return (1, {})", "key(a) has an object of type dict, expected a number or a tuple of numbers"),
        ("return ()", "key(a) has an empty tuple, expected a number or a tuple of numbers"),
        ("return seq.slot", "key() raised AttributeError: 'slot' cannot be read here"),
    ],
)
def test_a_key_that_cannot_be_ordered_is_refused_and_the_queue_is_first_come(
    load: Load, body: str, reason: str
) -> None:
    load(order=ORDER.format(body=body))
    made = bench(num_blocks=16, max_num_seqs=2, admission_order="mine")
    made.add(*(request(name, size, 3) for name, size in zip("abcd", (9, 3, 6, 1), strict=True)))
    made.drain()
    assert [name for step in made.steps for name in step.new] == list("abcd")
    found = refusals(made)
    assert found[0] == (1, f"admission_order mine (order.py): {reason}; fcfs decides in this step") or (
        found[0][1].startswith(f"admission_order mine (order.py): {reason}")
    )


def test_an_order_that_fails_for_one_request_decides_again_once_that_one_is_in(load: Load) -> None:
    load(order=ORDER.format(body="return -seq.num_prompt_tokens if seq.request_id != 'bad' else None"))
    made = bench(num_blocks=16, max_num_seqs=1, admission_order="mine")
    made.add(request("a", 2, 2), request("bad", 1, 2), request("b", 3, 2), request("c", 9, 2))
    made.drain()
    # First come while the bad one waits; then the largest first.
    assert [name for step in made.steps for name in step.new] == ["a", "bad", "c", "b"]
    assert {step for step, _ in refusals(made)} == {1, 2, 3}


def test_a_bad_key_that_comes_while_others_wait_costs_one_event_a_step(load: Load) -> None:
    load(order=ORDER.format(body="return 1 / (seq.num_prompt_tokens - 1)"))
    made = bench([request("a", 5, 9)], num_blocks=16, max_num_seqs=1, admission_order="mine")
    made.step()
    made.add(*(request(f"bad{i}", 1, 1) for i in range(20)))
    assert made.scheduler.abort("bad3").kind == "aborted"
    made.step()
    assert [step for step, _ in refusals(made)] == [2]
    made.drain()
    assert len(made.events("finished")) == 20


def test_a_key_that_changes_while_a_request_waits_is_refused(load: Load) -> None:
    load(order=ORDER.format(body="self.calls += 1; return -self.calls"))
    made = bench([request(name, 3, 3) for name in "abcde"], num_blocks=16, max_num_seqs=2, admission_order="mine")
    made.step()
    assert made.steps[0].new == ("a", "b")
    found = refusals(made)
    assert found[0][1].startswith("admission_order mine (order.py): key(e) changed while the request waited")
    made.drain()
    assert set(made.ends()) == set("abcde")


def test_a_scheduler_does_not_hear_of_the_refusals_of_another(load: Load) -> None:
    load(rule=VICTIM.format(body="return None"))
    first, second = crowd(preemption_victim="mine"), crowd(preemption_victim="newest")
    first.drain()
    second.drain()
    assert refusals(first)
    assert refusals(second) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("class Mine(:\n", "cannot be imported: SyntaxError: "),
        (
            "import no_such_module\n",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("raise SystemExit\n", "cannot be imported: SystemExit, line 1"),
        ("x = 1\n", "has no class derived from VictimRule, AdmissionOrder"),
        (VICTIM.format(body="pass").replace('"mine"', '"newest"'), "class Mine wants the name 'newest', which"),
        (
            VICTIM.format(body="pass").replace('"mine"', '"Not a name"'),
            "class Mine has the name 'Not a name'",
        ),
        (VICTIM.format(body="pass").replace('"mine"', "7"), "class Mine has the name 7, expected"),
        (VICTIM.format(body="pass") + "    def __init__(self):\n        1 / 0\n", "class Mine cannot be made: ZeroDiv"),
    ],
)
def test_a_file_that_offers_nothing_is_reported_and_the_others_are_loaded(load: Load, text: str, reason: str) -> None:
    load(broken=text, order=ORDER.format(body="return 0"))
    assert [(fault.file, fault.reason[: len(reason)]) for fault in custom.faults()] == [("broken.py", reason)]
    assert [own.file for own in custom.loaded()] == ["order.py"]
    assert "mine" not in choices("preemption_victim")


def test_of_two_files_with_one_name_the_first_is_offered(load: Load) -> None:
    load(a=ORDER.format(body="return 0"), b=ORDER.format(body="return 1"), _helper="raise ValueError")
    assert [own.file for own in custom.loaded()] == ["a.py"]
    assert [fault.file for fault in custom.faults()] == ["b.py"]


def test_a_folder_is_loaded_once_and_one_that_is_not_there_is_reported(load: Load, tmp_path: Path) -> None:
    folder = load(a=ORDER.format(body="return 0"))
    custom.load(folder)
    assert (len(custom.loaded()), custom.faults()) == (1, ())
    custom.load(tmp_path / "nowhere")
    assert [fault.reason for fault in custom.faults()] == [
        "the folder cannot be read: No such file or directory; BATCHSCOPE_POLICIES names it"
    ]


def test_the_environment_names_the_folder(tmp_path: Path) -> None:
    assert custom.folder_of({"BATCHSCOPE_POLICIES": str(tmp_path)}) == tmp_path
    assert custom.folder_of({}) == (custom.DEFAULT_FOLDER if custom.DEFAULT_FOLDER.is_dir() else None)


def test_a_policy_that_names_a_rule_which_is_gone_falls_back_to_the_default() -> None:
    wanted = SchedulerPolicy(preemption_victim="gone", admission_order="priority", max_num_seqs=3)
    known = with_known_values(wanted)
    assert known == replace(wanted, preemption_victim="newest")
    assert problems(known) == ()
    assert problems(wanted)[0].startswith("preemption_victim is 'gone', expected one of newest, ")


def test_a_built_in_choice_is_called_as_it_is() -> None:
    assert type(ORDERS["fcfs"].key(seq := _Ranked())) is tuple
    assert ORDERS["fcfs"].key(seq) == (4,)


class _Ranked:
    rank = 4


def workload_file(path: Path) -> Path:
    config = {"num_blocks": 9, "block_size": 4, "max_model_len": 64}
    requests = [{"id": name, "arrival_step": 0, "prompt_len": 7, "output_len": 14, "priority": 0} for name in "abc"]
    path.write_text(json.dumps({"config": config, "requests": requests}), encoding="utf-8")
    return path


def test_replay_loads_a_folder_and_names_what_was_refused(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "rule.py").write_text(VICTIM.format(body="return None"), encoding="utf-8")
    (tmp_path / "own" / "bad.py").write_text("(", encoding="utf-8")
    out = tmp_path / "out.jsonl"
    flags = ["--set", "preemption_victim=mine", "--out", str(out), "--policies"]
    assert main(["replay", str(workload_file(tmp_path / "w.json")), *flags, str(tmp_path / "own")]) == 0
    said = capsys.readouterr().err
    assert "warning: bad.py: cannot be imported: SyntaxError" in said
    assert "preemption_victim mine (rule.py): choose() returned None" in said
    assert any(json.loads(line)["preempted"] == ["c"] for line in out.read_text(encoding="utf-8").splitlines())
    assert main(["replay", str(tmp_path / "w.json"), *flags, str(tmp_path / "nowhere")]) == 2
    assert "--policies is " in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_the_shipped_examples_are_offered_and_never_refused(load: Load, path: Path) -> None:
    load(**{path.stem: path.read_text(encoding="utf-8")})
    (own,) = custom.loaded()
    assert own.description
    requests = [Request(f"r{i}", (1,) * (1 + 5 * i % 7)) for i in range(8)]
    made = bench(num_blocks=9, max_model_len=24, **{own.field: own.name})
    made.add(*requests)
    made.drain()
    assert (custom.faults(), refusals(made), len(made.ends())) == ((), [], 8)
    assert sum(1 for _ in path.open(encoding="utf-8")) <= 30


def test_the_code_of_the_page_that_explains_it_is_offered(load: Load) -> None:
    page = (EXAMPLES.parent / "own-policies.md").read_text(encoding="utf-8")
    load(shown=page.partition("```python\n")[2].partition("```")[0])
    assert custom.faults() == ()
    assert [own.name for own in custom.loaded()] == ["longest_output"]


ALLOCATOR = """
from scheduler import Allocator
class Mine(Allocator):
    name = "mine"
    contiguous = {contiguous}
    calls = 0
    def blocks_for(self, view, seq, num_tokens):
        {count}
    def place(self, free, count):
        {place}
"""
PAGES = "return view.blocks_for(num_tokens)"
WHOLE = "return view.blocks_for(seq.max_total_tokens)"
ANYWHERE = "block = free.find(b'\\1' * count); return block if block > 0 else None"
HIGHEST = "block = free.rfind(b'\\1' * count); return block if block > 0 else None"


def allocator(count: str = PAGES, place: str = ANYWHERE, *, contiguous: bool = False) -> str:
    return ALLOCATOR.format(count=count, place=place, contiguous=contiguous)


def test_an_allocator_from_a_file_gives_out_more_than_pages(load: Load) -> None:
    load(two=allocator("return min(view.num_blocks, 2 * -(-view.blocks_for(num_tokens) // 2))"))
    made, paged = crowd(allocation="mine"), crowd()
    made.step()
    paged.step()
    assert [len(row.block_ids) for row in paged.snapshots[0].running] == [2, 2, 2]
    assert [len(row.block_ids) for row in made.snapshots[0].running] == [2, 2, 2]
    made.drain()
    paged.drain()
    assert plans(made) != plans(paged)
    assert {len(row.block_ids) for snapshot in made.snapshots for row in snapshot.running} <= {2, 4, 6, 8}
    assert refusals(made) == []


def test_a_contiguous_allocator_from_a_file_places_its_runs(load: Load) -> None:
    load(high=allocator(WHOLE, HIGHEST, contiguous=True))
    made = bench([request(name, 5, 4) for name in "abc"], num_blocks=7, allocation="mine")
    made.step()
    assert [row.block_ids for row in made.snapshots[0].running] == [(6, 7), (4, 5), (2, 3)]
    made.drain()
    assert refusals(made) == []


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (allocator("return view.blocks_for(num_tokens) - 1"), "blocks_for(a, 7) returned 1, expected 2 to 9"),
        (allocator("return 10"), "blocks_for(a, 7) returned 10, expected 2 to 9"),
        (allocator("return 2.0"), "blocks_for(a, 7) returned 2.0, expected"),
        (allocator("return True"), "blocks_for(a, 7) returned True, expected"),
        (allocator("return view.pool"), "blocks_for(a, 7) raised AttributeError: 'pool' cannot be read here"),
        (allocator("return view.blocks_for(1)", contiguous=True), "blocks_for(a, 20) returned 1, expected 5 to 9"),
        (allocator(WHOLE, "return 0", contiguous=True), "place(5) returned 0, expected 1 to 5"),
        (allocator(WHOLE, "return 6", contiguous=True), "place(5) returned 6, expected 1 to 5"),
        (allocator(WHOLE, "return '1'", contiguous=True), "place(5) returned '1', expected 1 to 5"),
        (allocator(WHOLE, "return None", contiguous=True), "place(5) returned None although every block is free"),
        (allocator(WHOLE, "return free[400]", contiguous=True), "place(5) raised IndexError"),
    ],
)
def test_what_an_allocator_may_not_do_is_refused_and_pages_are_given(
    load: Load, text: str, reason: str, batching: str
) -> None:
    load(own=text)
    made = crowd(allocation="mine", batching=batching)
    made.drain()
    assert set(made.ends()) == set("abc")
    found = refusals(made)
    assert found[0][1].startswith(f"allocation mine (own.py): {reason}")
    assert found[0][1].endswith("; paged decides in this step")


def test_a_block_count_that_falls_for_more_tokens_is_refused(load: Load) -> None:
    load(own=allocator("return 9 if num_tokens < 20 else 5"))
    made = bench([request("a", 20, 1), request("b", 20, 1)], num_blocks=9, max_num_batched_tokens=8, allocation="mine")
    made.drain()
    assert refusals(made)[0][1].startswith("allocation mine (own.py): blocks_for(a, 8) returned 9, expected 2 to 5")
    assert set(made.ends()) == {"a", "b"}


def test_an_answer_that_changes_from_call_to_call_counts_once_a_step(load: Load) -> None:
    growing = "self.calls += 1; return min(view.num_blocks, view.blocks_for(num_tokens) + self.calls % 5)"
    moving = "self.calls += 1; return None if self.calls % 2 and free.count(1) < 9 else free.find(b'\\1' * count)"
    load(own=allocator(growing), two=allocator(WHOLE, moving, contiguous=True).replace('"mine"', '"other"'))
    for name in ("mine", "other"):
        made = bench([request(f"r{i}", 5 + i, 9) for i in range(8)], num_blocks=9, allocation=name)
        made.drain()
        assert len(made.ends()) == 8


def test_one_that_is_let_in_by_the_stand_in_grows_by_pages_to_its_end(load: Load) -> None:
    load(own=allocator(WHOLE, "return 1", contiguous=True))
    made = bench([request(name, 7, 14) for name in "abc"], num_blocks=14, allocation="mine")
    made.step()
    assert [row.block_ids for row in made.snapshots[0].running] == [(1, 2, 3, 4, 5), (6, 7), (8, 9)]
    assert refusals(made)[0][1].startswith("allocation mine (own.py): place(5) returned 1, a run in which blocks are")
    made.drain()
    assert set(made.ends()) == set("abc")


@pytest.mark.parametrize("seed", range(40))
def test_any_rules_of_ones_own_leave_every_invariant_whole(load: Load, seed: int) -> None:
    """Random traces under policies that answer at random, wrongly as often as not."""
    odd = "import random; rng = random.Random(seq.request_id + str(num_tokens)); "
    load(
        victim=VICTIM.format(body="import random; return random.Random(draft.budget).choice((None, *candidates))"),
        order=ORDER.format(body="import random; return random.Random(seq.request_id).choice((None, 1.5, (2, 3), 'x'))"),
        pages=allocator(odd + "return view.blocks_for(num_tokens) + rng.randint(-1, 3)"),
        runs=allocator(
            odd + "return view.blocks_for(seq.max_total_tokens) + rng.randint(-1, 2)",
            "import random; rng = random.Random(count); return rng.choice((None, 1, free.find(b'\\1' * count)))",
            contiguous=True,
        ).replace('"mine"', '"runs"'),
    )
    assert custom.faults() == ()
    trace = run_trace(seed)
    refused = [event for event in trace.events if event.kind == "policy_refused" and event.numbers.get("file")]
    assert trace.totals[-1].refused_proposals == len(refused)
