"""Every view in both themes and languages under axe-core, and by the keyboard alone.

axe-core's rules of WCAG 2.0 to 2.2, levels A and AA. What is left out is drawn by a library and cannot be changed from
outside; each entry says what it is.
"""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from dashboard.main import PAGES
from tests.browser.conftest import WAIT_MS

pytestmark = pytest.mark.browser

OPTIONS = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}
NOT_OURS: dict[str, str] = {
    "svg-img-alt": "graphics-symbol",  # Vega gives this role to empty groups within a drawing; the chart has its name
}
"""Rule to a part of the element that breaks it and that a library draws."""


def violations(page) -> list[str]:
    """Serious and critical ones of our own parts: rule and element."""
    found = Axe().run(page, options=OPTIONS).response["violations"]
    told = []
    for violation in found:
        if violation["impact"] not in ("serious", "critical"):
            continue
        for node in violation["nodes"]:
            own = NOT_OURS.get(violation["id"])
            if own is None or own not in node["html"]:
                data = [check.get("message", "") for check in (*node["any"], *node["all"], *node["none"])]
                told.append(f"{violation['id']}: {node['target']} {node['html'][:200]} {data[:1]}")
    return told


@pytest.mark.parametrize(
    ("theme", "locale"),
    [
        ("dark", "en-US"),
        ("light", "ko-KR"),
        pytest.param("dark", "ko-KR", marks=pytest.mark.soak),
        pytest.param("light", "en-US", marks=pytest.mark.soak),
    ],
)
def test_no_view_has_a_serious_violation(open_page, server, theme, locale):
    page = open_page(locale, color_scheme=theme)
    told = {}
    for address in [*(f"view={name}" for name in PAGES), "view=live&projector=1"]:
        page.goto(f"{server.url}/?{address}")
        page.locator("[data-testid=stMainBlockContainer] .stHtml").first.wait_for(timeout=WAIT_MS, state="attached")
        page.wait_for_timeout(4000)
        found = violations(page)
        if found:
            told[address] = found
    assert told == {}


def test_every_control_is_reached_by_tab_and_has_a_name(open_page):
    page = open_page()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, select, [role=tab], [role=combobox]')]
          .filter(e => e.checkVisibility() && e.getBoundingClientRect().width > 1)
          .filter(e => !(e.innerText || e.ariaLabel || e.title || e.placeholder || e.labels?.length
                         || e.getAttribute('aria-labelledby')))
          .map(e => e.outerHTML.slice(0, 160))"""
    )
    assert nameless == []
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement?.closest('[class*=st-key-]')?.className || ''"))
    keys = " ".join(reached)
    for control in ("st-key-pause", "st-key-step", "st-key-chosen", "st-key-burst", "st-key-language"):
        assert control in keys, control
