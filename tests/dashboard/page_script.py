"""The page as a script, run without a browser, and what it has drawn."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from dashboard.arrow import decode

MAIN = Path(__file__).resolve().parents[2] / "dashboard" / "main.py"


def page(**params: str) -> AppTest:
    at = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in params.items():
        at.query_params[name] = value
    return at.run()


def html(at: AppTest) -> str:
    return "\n".join(e.proto.body for e in at.get("html"))


def charts(at: AppTest) -> dict[str, dict[str, list]]:
    """Data sets of each chart, by the name of its first data set."""
    out = {}
    for element in at.get("vega_lite_chart"):
        sets = {d.name: decode(d.data.data) for d in element.proto.datasets}
        out["time" if "series" in sets else next(iter(sets))] = sets
    return out
