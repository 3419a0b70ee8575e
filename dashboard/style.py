"""Style sheet of the page's own HTML, from the same colours as the charts."""

from __future__ import annotations

from functools import cache

from dashboard.charts.theme import FONTS, THEMES, Theme
from dashboard.charts.window import MOST_PX, PLAIN_PX, SHARES
from dashboard.narrow_style import narrow_sheet


def _frame() -> str:
    """Streamlit's own elements: less air, no header."""
    return """
.stMainBlockContainer, [data-testid="stMainBlockContainer"] { padding: 6px 18px 6px 18px; max-width: none; }
[data-testid="stHeader"] { height: 0; min-height: 0; background: transparent; }
[data-testid="stMainMenu"] { position: fixed; right: 0; top: 8px; width: 18px; height: 34px; }
[data-testid="stExpandSidebarButton"] { position: fixed; left: 0; top: 8px; width: 18px; height: 34px; min-width: 0;
  min-height: 0; padding: 0; }
[data-testid="stMainMenu"] button { width: 100%; height: 34px; min-width: 0; min-height: 0; margin: 0; padding: 0; }
[data-testid="stMainMenu"] svg { width: 17px; height: 17px; }
[data-testid="stStatusWidget"] { position: fixed; right: 20px; top: 0; }
[data-testid="stStatusWidget"]:has([data-testid="stStatusWidgetRunningIcon"]) { display: none; }
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] { gap: 5px; }
[data-testid="stMainBlockContainer"] [data-testid="stHorizontalBlock"] { gap: 14px; }
[data-testid="stSidebarContent"] { padding: 0 12px; }
[data-testid="stSidebarUserContent"] { padding: 0 0 24px 0; }
[data-testid="stSidebar"] [data-testid="stExpanderDetails"] { padding: 4px 10px 10px 10px; }
[data-testid="stSidebar"] [data-testid="stExpander"] summary { padding: 4px 10px; min-height: 30px; }
[data-testid="stSidebar"] [data-testid="stHorizontalBlock"] { gap: 8px; }
[data-testid="stSidebarHeader"] { height: 34px; min-height: 0; margin-bottom: 0; padding: 6px; }
[data-testid="stSidebar"] [data-testid="stVerticalBlock"] { gap: 8px; }
[data-testid="stSidebar"] label p, [data-testid="stSidebar"] .stExpander summary p { font-size: 13px; }
[data-testid="stTabs"] [role="tab"] { padding: 2px 0; height: 28px; }
[data-testid="stTabs"] [role="tablist"] { gap: 0 11px; }
[data-testid="stTabs"] [role="tab"] p { font-size: 13px; white-space: nowrap; }
[data-testid="stTabs"] [role="tabpanel"] { padding-top: 4px; }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; animation: none !important; } }"""


def _strip(c: Theme) -> str:
    return f"""
[data-testid^="stBaseButton-primary"]:not(:disabled) p {{ color: {c.background}; }}
[data-testid="stMultiSelect"] span[title], [data-testid="stMultiSelect"] span[title] ~ * {{
  color: {c.background} !important; }}
[data-testid="stSidebar"] [data-testid="stButtonGroup"] [aria-checked="false"] {{
  border-color: color-mix(in srgb, {c.ink} 20%, transparent) !important; }}
.bs-strip {{ height: 64px; overflow: hidden; }}
.bs-row {{ display: flex; gap: 14px; align-items: center; white-space: nowrap; overflow: hidden; height: 28px;
  font-size: 14px; }}
.bs-small {{ font-size: 12px; color: {c.muted}; height: 18px; }}
div.bs-row.bs-small {{ display: block; line-height: 18px; text-overflow: ellipsis; }}
.bs-pill {{ padding: 2px 11px; border-radius: 13px; font-weight: 700; font-size: 14px; border: 1.5px solid; flex: none;
  min-width: 84px; text-align: center; }}
.bs-pill.bs-live {{ color: {c.green}; }} .bs-pill.bs-held {{ color: {c.accent}; }}
.bs-pill.bs-wait {{ color: {c.amber}; }} .bs-pill.bs-bad {{ color: {c.red}; }}
.bs-iter b {{ font-size: 20px; display: inline-block; min-width: 66px; }}
.bs-force {{ color: {c.accent}; font-weight: 600; flex: none; }}
.bs-toy {{ color: {c.amber}; font-size: 12.5px; overflow: hidden; text-overflow: ellipsis; }}
:root {{ --bs-past: {c.accent}; --bs-wrong: {c.red};
  --bs-more: calc(clamp(0px, 100vh - {PLAIN_PX}px, {MOST_PX}px) * {SHARES["time"]:.6g}); }}
.bs-pill.bs-past {{ color: {c.background}; background: {c.accent}; border-color: {c.accent}; }}
.bs-now-row {{ color: {c.accent}; }}
.bs-now-row .bs-pill {{ font-size: 11px; line-height: 14px; padding: 0 7px; min-width: 0; margin-right: 5px; }}
.bs-problem {{ font-size: 12.5px; line-height: 17px; min-height: 18px; color: {c.amber}; }}
.bs-strip:has(.bs-problem) {{ height: auto; min-height: 64px; }}
.bs-over {{ position: relative; height: 0; }}
.bs-over .bs-notice {{ position: absolute; left: 0; right: 0; top: 0; z-index: 20; max-height: 190px; overflow: auto;
  box-shadow: 0 4px 14px rgb(0 0 0 / 35%); }}
.bs-what {{ color: {c.muted}; overflow: hidden; text-overflow: ellipsis; }}
.bs-notice {{ font-size: 13px; padding: 5px 10px; border-left: 4px solid {c.amber}; background: {c.panel};
  margin-bottom: 2px; }}
.bs-notice.bs-bad {{ border-color: {c.red}; }}
.bs-notice code {{ font-size: 12px; user-select: all; color: {c.ink}; }}"""


def _tiles(c: Theme) -> str:
    return f"""
.bs-tiles {{ display: grid; grid-template-columns: 1.05fr 1.1fr 1.15fr 0.75fr 1.4fr; gap: 12px; height: 74px; }}
.bs-tile {{ background: {c.panel}; border-radius: 6px; padding: 3px 12px; overflow: hidden; }}
.bs-name {{ font-size: 12px; color: {c.muted}; line-height: 16px; }}
.bs-value {{ font-size: 29px; font-weight: 650; line-height: 33px; white-space: nowrap; }}
.bs-second {{ font-size: 19px; font-weight: 500; color: {c.muted}; }}
.bs-gloss {{ font-size: 12px; color: {c.muted}; line-height: 16px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}"""


def _titles(c: Theme) -> str:
    """Titles of the charts, and the sentence on the head of the queue."""
    return f"""
.bs-title {{ font-size: 13px; font-weight: 650; height: 19px; line-height: 19px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.bs-title span {{ color: {c.muted}; font-weight: 400; }}
.bs-reason {{ font-size: 12.5px; line-height: 16px; height: 50px; overflow: hidden; color: {c.amber}; }}
.bs-reason.bs-quiet, .bs-quiet {{ color: {c.muted}; font-size: 12.5px; margin: 0; }}
.bs-chip {{ display: inline-block; min-width: 17px; height: 17px; line-height: 14px; text-align: center;
  font-size: 12px;
  font-weight: 700; border: 1.5px solid {c.muted}; border-radius: 3px; margin-right: 4px; vertical-align: 1px; }}
.bs-chip.bs-none {{ color: {c.muted}; }}
.bs-blank {{ display: flex; align-items: center; justify-content: center; text-align: center; font-size: 13px;
  color: {c.muted}; background: {c.panel}; border-radius: 6px; padding: 0 20px; box-sizing: border-box; }}"""


def _memory(c: Theme) -> str:
    """The account above the block map. A key shows what it names: same stroke, same texture."""
    stripes = f"repeating-linear-gradient(90deg, {c.line} 0 2px, transparent 2px 4px)"
    cross = ", ".join(
        f"linear-gradient({a}deg, transparent 45%, {c.muted} 45% 55%, transparent 55%)" for a in (45, 135)
    )
    return f"""
.bs-account {{ font-size: 12.5px; line-height: 17px; height: 18px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.bs-account span, .bs-gauges span {{ color: {c.muted}; }}
.bs-entry {{ margin-left: 9px; }}
.bs-k {{ display: inline-block; width: 11px; height: 11px; box-sizing: border-box; margin-right: 4px;
  vertical-align: -1px; border: 1.5px solid {c.muted}; }}
.bs-k-part {{ background: linear-gradient(0deg, {c.muted} 45%, transparent 45%); }}
.bs-k-reserved {{ border-style: dashed; }}
.bs-k-unusable {{ background: {cross}; border: 1px solid {c.empty}; }}
.bs-k-cached {{ background: {c.padding}; border: 3px solid {c.background}; outline: 1px solid {c.empty}; }}
.bs-k-shared {{ background: {c.ink}; border-color: {c.ink}; }}
.bs-k-none {{ display: none; }}
.bs-gauges {{ display: flex; align-items: center; gap: 4px; font-size: 12px; height: 13px;
  line-height: 13px; white-space: nowrap; }}
.bs-gauges span {{ margin-left: 10px; }}
.bs-gauge {{ position: relative; height: 7px; background: {c.grid}; border-radius: 3px; flex: 1; min-width: 40px; }}
.bs-gauge.bs-host {{ flex: 0 0 90px; overflow: hidden; }}
.bs-gauge div {{ height: 7px; }}
.bs-stack {{ display: flex; }}
.bs-g-tokens {{ background: {c.decode}; }} .bs-g-part {{ background: {c.prefill}; }}
.bs-g-reserved {{ background: {stripes}; }}
.bs-gauge > i {{ position: absolute; top: -3px; width: 3px; height: 13px; margin-left: -2px; background: {c.amber}; }}
.bs-w-useful {{ background: {c.decode}; }} .bs-w-again {{ background: {c.red}; }}
.bs-w-copy {{ background: {stripes}; }}"""


def _scrubber() -> str:
    """Strip, slider and buttons in two low rows. The keys are told in the help of the buttons; the thumb of the slider
    counts from where live was left, which the strip shows better than a number."""
    return """
.st-key-scrubber [data-testid="stHorizontalBlock"] { gap: 5px; }
.st-key-scrubber > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] { gap: 14px; }
.st-key-scrubber button { min-height: 30px; height: 30px; padding: 0 4px; }
.st-key-scrubber button p { font-size: 13px; }
.st-key-scrubber kbd, .st-key-scrubber [data-testid="stSliderThumbValue"] { display: none; }
.st-key-scrubber [data-testid="stSlider"] { height: 20px; margin-top: -4px; }
.st-key-scrubber [role="group"], .st-key-scrubber [role="group"] > div { height: 24px; }
.st-key-scrubber [data-testid="stSliderTickBar"] { display: none; }"""


def _side(c: Theme) -> str:
    """The panels at the right: the decision, events, preemptions and their cost, a request of one's own."""
    return f"""
.bs-scroll {{ overflow-y: auto; overflow-x: hidden; font-size: 12.5px; line-height: 17px; }}
.bs-dict code {{ display: block; font-size: 12.5px; line-height: 20px; background: {c.panel}; color: {c.ink};
  padding: 0 8px; border: solid {c.panel}; border-width: 5px 0; box-sizing: border-box;
  border-radius: 5px; white-space: normal; height: 110px; overflow-y: auto; }}
.bs-dict code span {{ white-space: nowrap; }}
.bs-dict i {{ color: {c.muted}; }}
.bs-head {{ font-size: 13px; font-weight: 650; margin: 2px 0 3px; }}
.bs-events {{ list-style: none !important; margin: 0 !important; padding: 0 !important; }}
.bs-events li {{ margin: 0 0 5px !important; padding: 0 !important; font-size: 12.5px; line-height: 17px;
  overflow-wrap: anywhere; }}
.bs-events .bs-when {{ color: {c.muted}; margin: 4px 0 2px; font-size: 11.5px; border-top: 1px solid {c.grid}; }}
[data-request] {{ cursor: pointer; }}
.bs-events .bs-e-preempted {{ color: {c.red}; }} .bs-events .bs-e-policy_changed {{ color: {c.accent}; }}
.bs-costs {{ font-size: 12px; line-height: 16px; height: 92px; overflow: hidden; }}
.bs-costs .bs-stack {{ height: 8px; margin: 3px 0 4px; border-radius: 3px; overflow: hidden; background: {c.grid}; }}
.bs-costs .bs-stack div {{ height: 8px; }}
.bs-costs span {{ white-space: nowrap; margin-right: 8px; }}
.bs-costs span i {{ display: inline-block; width: 10px; height: 10px; margin-right: 4px; }}
.bs-prompt {{ font-size: 12px; color: {c.muted}; max-height: 34px; overflow: hidden; overflow-wrap: anywhere; }}
.bs-now {{ font-size: 12.5px; line-height: 17px; color: {c.amber}; }}
.bs-text {{ font-size: 14px; line-height: 20px; white-space: pre-wrap; overflow-wrap: anywhere; padding-top: 4px; }}
.bs-preset p {{ font-size: 12.5px; line-height: 17px; margin: 0 0 5px; }}
.bs-preset p.bs-source {{ color: {c.muted}; font-size: 11.5px; line-height: 15px; }}
.bs-preset .bs-table, .bs-preset code {{ font-size: 12px; line-height: 16px; }}
.bs-preset tr {{ display: block; border-bottom: 1px solid {c.grid}; padding: 2px 0; }}
.bs-preset td, .bs-preset th {{ display: block; border: none; padding: 0; }}
.bs-preset th {{ display: inline-block; padding-right: 8px; }}
.bs-preset code {{ background: none; padding: 0; color: {c.muted}; }}
.bs-table {{ border-collapse: collapse; font-size: 13px; width: 100%; }}
.bs-table th {{ text-align: left; color: {c.muted}; font-weight: 500; }}
.bs-table th, .bs-table td {{ padding: 2px 10px 2px 0; border-bottom: 1px solid {c.grid}; vertical-align: top; }}"""


def _room(c: Theme) -> str:
    """The room's question, votes and invitation; large enough for a thumb, and for the last row."""
    return f"""
.bs-board, .bs-question, .bs-result, .bs-invite, #bs-here, .bs-tally {{ font-family: {FONTS}; color: {c.ink}; }}
.bs-board {{ border-left: 4px solid {c.accent}; padding: 2px 12px; margin: 4px 0 8px; }}
.bs-board h2 {{ font-size: 20px; line-height: 26px; margin: 0; padding: 0; }}
.bs-board p, .bs-result p {{ font-size: 16px; line-height: 23px; margin: 4px 0; overflow-wrap: anywhere; }}
.bs-question b {{ font-size: 20px; line-height: 27px; overflow-wrap: anywhere; }}
.bs-question p {{ font-size: 14px; color: {c.muted}; margin: 2px 0; }}
.st-key-bs-vote button {{ min-height: 56px; }}
.st-key-bs-vote button p {{ font-size: 18px; white-space: normal; overflow-wrap: anywhere; }}
.bs-tally {{ display: grid; grid-template-columns: minmax(120px, 1fr) 2fr 3em; gap: 10px; align-items: center;
  font-size: 16px; line-height: 22px; padding: 3px 0; }}
.bs-tally span {{ overflow-wrap: anywhere; }}
.bs-tally i {{ background: {c.grid}; border-radius: 3px; height: 18px; }}
.bs-tally u {{ display: block; background: {c.accent}; border-radius: 3px; height: 18px; }}
.bs-tally em {{ font-style: normal; font-weight: 700; font-variant-numeric: tabular-nums; }}
.bs-answer span {{ font-weight: 700; }}
.bs-invite {{ display: flex; gap: 24px; align-items: center; flex-wrap: wrap; }}
.bs-invite img {{ width: 260px; height: 260px; }}
.bs-invite p {{ font-size: 18px; margin: 0; }}
.bs-invite b {{ font-size: 34px; overflow-wrap: anywhere; user-select: all; }}
#bs-here {{ font-size: 18px; }}
@media (max-width: 640px) {{
  [data-testid="stHeader"] {{ height: 44px; min-height: 44px; }}
  [data-testid="stToolbar"] {{ height: 44px; }}
  [data-testid="stMainMenu"] {{ right: 6px; width: 34px; }}
  [data-testid="stExpandSidebarButton"] {{ left: 6px; width: 34px; }}
  .bs-title, .bs-account, .bs-gloss {{ white-space: normal; height: auto; overflow: visible; }}
  .bs-reason {{ height: auto; }} .bs-gauges {{ flex-wrap: wrap; height: auto; }}
  div.bs-row.bs-small {{ white-space: normal; height: auto; }}
  [data-testid="stMainBlockContainer"] {{ padding-top: 48px; }}
  .bs-strip {{ height: auto; }} .bs-strip .bs-row {{ flex-wrap: wrap; height: auto; white-space: normal; }}
}}"""


def _numbers(c: Theme) -> str:
    """The tables of epochs, their definitions, and the buttons that come up over a chart or table."""
    return f"""
.bs-epochs .bs-table td, .bs-epochs .bs-table th {{ padding: 3px 8px 3px 0; white-space: nowrap; text-align: right; }}
.bs-epochs .bs-table td:first-child, .bs-epochs .bs-table th:first-child {{ text-align: left; max-width: 215px;
  overflow: hidden; text-overflow: ellipsis; }}
.bs-epochs span {{ color: {c.muted}; }} .bs-epochs abbr {{ text-decoration: underline dotted; cursor: help; }}
.bs-stroke {{ display: inline-block; width: 26px; vertical-align: 4px; }}
.bs-defs {{ font-size: 13px; max-width: 860px; }} .bs-defs code {{ font-size: 12px; color: {c.ink}; }}
.bs-defs .bs-note {{ font-size: 13px; line-height: 18px; margin: 6px 0 0; }}
[data-testid="stElementToolbar"]:focus-within {{ opacity: 1; top: -1rem; z-index: 10; }}
[data-testid="stElementToolbarButton"]:has(button[aria-label^="Show data"]),
[data-testid="stElementToolbarButton"]:has(button[aria-label^="Download as CSV"]) {{ display: none; }}"""


def _experiments(c: Theme) -> str:
    """Plans, verdicts, claim cards."""
    return f"""
.bs-plan, .bs-list, .bs-card, .bs-rosetta, .bs-claim {{ font-family: {FONTS}; color: {c.ink}; font-size: 13.5px;
  line-height: 19px; }}
.bs-plan {{ margin: 0; overflow-wrap: anywhere; }} .bs-plan code {{ font-size: 12px; }}
.bs-list {{ margin: 0 !important; padding-left: 18px !important; }} .bs-list li {{ font-size: 13.5px; margin: 0; }}
.bs-amber li {{ color: {c.amber}; }}
.bs-better {{ color: {c.green}; white-space: nowrap; }} .bs-worse {{ color: {c.red}; white-space: nowrap; }}
.bs-unclear {{ color: {c.amber}; white-space: nowrap; }}
.bs-claim {{ border-left: 4px solid {c.accent}; background: {c.panel}; padding: 6px 12px; margin: 2px 0;
  overflow-wrap: anywhere; }}
.bs-claim b {{ font-size: 15px; line-height: 22px; }} .bs-claim.bs-withheld {{ border-color: {c.amber}; }}
.bs-card h3 {{ font-size: 18px; padding: 2px 0; }}
.bs-card h4 {{ font-size: 14px; padding: 10px 0 2px; }} .bs-card h5 {{ font-size: 13px; padding: 8px 0 0;
  color: {c.muted}; }}
.bs-card ul {{ margin: 2px 0 !important; padding-left: 18px !important; }}
.bs-card li, .bs-claim li {{ font-size: 13px; line-height: 18px; margin: 0 0 2px !important; }}
.bs-card td {{ overflow-wrap: anywhere; }} .bs-card td:first-child {{ width: 230px; color: {c.muted}; }}
.bs-card pre {{ font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; background: {c.panel}; color: {c.ink};
  padding: 4px 8px; }}
.bs-missing {{ color: {c.amber}; }}
.bs-metrics td:nth-child(2), .bs-metrics td:nth-child(3) {{ white-space: nowrap; }}
.bs-rosetta small {{ color: {c.muted}; }}
.bs-rosetta td {{ white-space: nowrap; }} .bs-rosetta td:last-child {{ white-space: normal; }}"""


@cache
def sheet(theme_name: str) -> str:
    """CSS for one theme. Fixed heights throughout: nothing moves when numbers change. No text under 11 px."""
    c = THEMES[theme_name]
    ours = ("strip", "problem", "tiles", "title", "reason", "account", "gauges", "scroll", "notice", "dict", "table")
    named = ", ".join(f".bs-{name}" for name in (*ours, "quiet", "head", "text", "prompt", "costs", "preset"))
    base = f"{named} {{ font-family: {FONTS}; color: {c.ink}; font-variant-numeric: tabular-nums; }}"
    sheets = (
        _strip(c),
        _tiles(c),
        _titles(c),
        _memory(c),
        _scrubber(),
        _side(c),
        _room(c),
        _numbers(c),
        _experiments(c),
    )
    parts = (_frame(), base, *sheets, narrow_sheet())
    return f"<style>{''.join(parts)}</style>"


def state_sheet(*, frozen: bool, past: bool) -> str:
    """Takes the colour out of every picture while what it shows is no longer true; frames the page while it shows the
    past on purpose."""
    rule = "filter: grayscale(1) opacity(0.55);" if frozen else "filter: none;"
    edge = "inset 0 0 0 3px var(--bs-past)" if past else "none"
    page = '[data-testid="stMainBlockContainer"]'
    charts = f'{page} [data-testid="stVegaLiteChart"], .bs-tiles'
    return f"<style>{charts} {{ {rule} }} {page} {{ box-shadow: {edge}; }}</style>"
