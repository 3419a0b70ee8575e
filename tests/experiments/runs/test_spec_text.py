"""A spec written as TOML reads back as the same spec."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.runs.spec import LABEL_PATTERN, ModelTable, PolicyTable, Spec, TraceTable, parse_spec, read_spec
from experiments.runs.spec_text import spec_text
from model_runner.config import KNOWN_MODELS
from tests.experiments.runs.test_spec import SPECS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = st.one_of(st.booleans(), st.integers(-(2**31), 2**31), st.floats(allow_nan=False, allow_infinity=False), TEXT)
SETTINGS = st.dictionaries(TEXT, VALUE, max_size=4)
POLICY = st.builds(
    PolicyTable, preset=TEXT, set=SETTINGS, label=st.none() | st.from_regex(LABEL_PATTERN, fullmatch=True)
)


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_specs_that_come_along_read_back_equal(path):
    spec = read_spec(path)
    assert parse_spec(spec_text(spec)) == spec


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        Spec,
        kind=st.just("ab"),
        trace=st.builds(TraceTable, file=TEXT.filter(bool), scale=SETTINGS),
        name=TEXT,
        repeats=st.integers(1, 1000),
        seed=st.integers(0, 2**63 - 1),
        model=st.builds(ModelTable, model=st.sampled_from(KNOWN_MODELS), threads=st.integers(0, 64)),
        a=POLICY,
        b=POLICY,
    )
)
def test_any_spec_reads_back_equal(spec: Spec):
    assert parse_spec(spec_text(spec)) == spec


def test_what_toml_cannot_hold_is_named():
    spec = Spec("single", TraceTable(file="t"), policy=PolicyTable(set={"kv_block_limit": None}))
    with pytest.raises(ValueError, match=r"policy\.set\.kv_block_limit is None"):
        spec_text(spec)
