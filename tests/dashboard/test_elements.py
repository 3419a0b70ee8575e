"""A chart keeps its place in the browser while it takes new data, and is put up anew before it holds too much."""

from __future__ import annotations

import json
from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard import elements
from dashboard.elements import STAGGER, UPDATES_A_VIEW


def drawings() -> None:
    """Charts "a" and "b" take so many new data, "c" the same again and again; what tells them apart in the browser."""
    import json

    import streamlit as st

    from dashboard import elements

    turns: dict[str, list[object]] = {"a": [], "b": [], "c": []}
    drawn = elements.st.vega_lite_chart
    elements.st.vega_lite_chart = lambda spec, alt, **_: turns[alt].append(spec.get("usermeta"))
    try:
        for i in range(st.session_state["count"]):
            for name in turns:
                data = {"rows": b"same" if name == "c" else b"%d" % i}
                elements.vega({"mark": "bar", "usermeta": {"embedOptions": {}}}, data, name)
    finally:
        elements.st.vega_lite_chart = drawn
    st.text(json.dumps(turns))


def turns_of(count: int) -> dict[str, list[int]]:
    at = AppTest.from_function(drawings, default_timeout=60)
    at.session_state["count"] = count
    told = json.loads(at.run().text[0].value)
    return {name: [usermeta.get("turn", 0) for usermeta in told[name]] for name in told}


def test_a_chart_is_put_up_anew_after_so_many_new_data_and_never_together_with_another():
    turns = turns_of(3 * UPDATES_A_VIEW)
    anew = {name: [i for i in range(1, len(seen)) if seen[i] != seen[i - 1]] for name, seen in turns.items()}
    assert anew["a"] == [UPDATES_A_VIEW, 2 * UPDATES_A_VIEW]
    assert anew["b"] == [UPDATES_A_VIEW + STAGGER, 2 * UPDATES_A_VIEW + STAGGER]
    assert anew["c"] == []


def test_no_chart_is_drawn_past_the_one_place_that_lets_go_of_what_it_holds():
    sources = Path(elements.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "vega_lite_chart(" in path.read_text(encoding="utf-8")] == ["elements.py"]
