"""Style sheet of the page's own HTML, from the same colours as the charts."""

from __future__ import annotations

from functools import cache

from dashboard.charts.theme import FONTS, THEMES


@cache
def sheet(theme_name: str) -> str:
    """CSS for one theme. Fixed heights throughout: nothing moves when numbers change. No text under 11 px."""
    c = THEMES[theme_name]
    return f"""<style>
.stMainBlockContainer, [data-testid="stMainBlockContainer"] {{ padding: 10px 18px 8px 18px; max-width: none; }}
[data-testid="stHeader"] {{ height: 0; min-height: 0; background: transparent; }}
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] {{ gap: 5px; }}
[data-testid="stMainBlockContainer"] [data-testid="stHorizontalBlock"] {{ gap: 14px; }}
[data-testid="stSidebarContent"] {{ padding: 0 12px; }}
[data-testid="stSidebarUserContent"] {{ padding: 0 0 24px 0; }}
[data-testid="stSidebar"] [data-testid="stExpanderDetails"] {{ padding: 4px 10px 10px 10px; }}
[data-testid="stSidebar"] [data-testid="stExpander"] summary {{ padding: 4px 10px; min-height: 30px; }}
[data-testid="stSidebar"] [data-testid="stHorizontalBlock"] {{ gap: 8px; }}
[data-testid="stSidebarHeader"] {{ height: 34px; min-height: 0; margin-bottom: 0; padding: 6px; }}
[data-testid="stSidebar"] [data-testid="stVerticalBlock"] {{ gap: 8px; }}
[data-testid="stSidebar"] label p, [data-testid="stSidebar"] .stExpander summary p {{ font-size: 13px; }}
[data-testid="stTabs"] button {{ padding: 2px 6px; min-height: 26px; height: 28px; }}
[data-testid="stTabs"] [role="tabpanel"] {{ padding-top: 4px; }}
.bs-strip, .bs-tiles, .bs-title, .bs-reason, .bs-account, .bs-scroll, .bs-notice, .bs-dict, .bs-table, .bs-quiet,
.bs-head, .bs-text, .bs-prompt {{ font-family: {FONTS}; color: {c.ink}; font-variant-numeric: tabular-nums; }}
.bs-strip {{ height: 64px; overflow: hidden; }}
.bs-row {{ display: flex; gap: 14px; align-items: center; white-space: nowrap; overflow: hidden; height: 28px;
  font-size: 14px; }}
.bs-small {{ font-size: 12px; color: {c.muted}; height: 18px; }}
div.bs-row.bs-small {{ gap: 4px; }}
.bs-pill {{ padding: 2px 11px; border-radius: 13px; font-weight: 700; font-size: 14px; border: 1.5px solid; flex: none;
  min-width: 84px; text-align: center; }}
.bs-pill.bs-live {{ color: {c.green}; }} .bs-pill.bs-held {{ color: {c.accent}; }}
.bs-pill.bs-wait {{ color: {c.amber}; }} .bs-pill.bs-bad {{ color: {c.red}; }}
.bs-iter b {{ font-size: 20px; display: inline-block; min-width: 66px; }}
.bs-force {{ color: {c.accent}; font-weight: 600; flex: none; }}
.bs-what {{ color: {c.muted}; overflow: hidden; text-overflow: ellipsis; }}
.bs-notice {{ font-size: 13px; padding: 5px 10px; border-left: 4px solid {c.amber}; background: {c.panel};
  margin-bottom: 2px; }}
.bs-notice.bs-bad {{ border-color: {c.red}; }}
.bs-notice code {{ font-size: 12px; user-select: all; color: {c.ink}; }}
.bs-tiles {{ display: grid; grid-template-columns: 1.05fr 1.1fr 1.15fr 0.75fr 1.4fr; gap: 12px; height: 78px; }}
.bs-tile {{ background: {c.panel}; border-radius: 6px; padding: 5px 12px; overflow: hidden; }}
.bs-name {{ font-size: 12px; color: {c.muted}; line-height: 16px; }}
.bs-value {{ font-size: 29px; font-weight: 650; line-height: 33px; white-space: nowrap; }}
.bs-second {{ font-size: 19px; font-weight: 500; color: {c.muted}; }}
.bs-gloss {{ font-size: 12px; color: {c.muted}; line-height: 16px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.bs-title {{ font-size: 13px; font-weight: 650; height: 19px; line-height: 19px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.bs-title span {{ color: {c.muted}; font-weight: 400; }}
.bs-reason {{ font-size: 12.5px; line-height: 16px; height: 34px; overflow: hidden; color: {c.amber}; }}
.bs-reason.bs-quiet, .bs-quiet {{ color: {c.muted}; font-size: 12.5px; margin: 0; }}
.bs-account {{ font-size: 12.5px; line-height: 17px; height: 18px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }}
.bs-account span {{ color: {c.muted}; }}
.bs-gauge {{ position: relative; height: 7px; background: {c.grid}; border-radius: 3px; margin-top: 3px; }}
.bs-gauge div {{ height: 7px; background: {c.line2}; border-radius: 3px; }}
.bs-gauge i {{ position: absolute; top: -3px; width: 3px; height: 13px; margin-left: -2px; background: {c.amber}; }}
.bs-chip {{ display: inline-block; min-width: 17px; height: 17px; line-height: 14px; text-align: center;
  font-size: 12px;
  font-weight: 700; border: 1.5px solid {c.muted}; border-radius: 3px; margin-right: 4px; vertical-align: 1px; }}
.bs-chip.bs-none {{ color: {c.muted}; }}
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
.bs-events .bs-e-preempted {{ color: {c.red}; }} .bs-events .bs-e-policy_changed {{ color: {c.accent}; }}
.bs-prompt {{ font-size: 12px; color: {c.muted}; max-height: 34px; overflow: hidden; overflow-wrap: anywhere; }}
.bs-now {{ font-size: 12.5px; line-height: 17px; color: {c.amber}; }}
.bs-text {{ font-size: 14px; line-height: 20px; white-space: pre-wrap; overflow-wrap: anywhere; padding-top: 4px; }}
.bs-table {{ border-collapse: collapse; font-size: 13px; width: 100%; }}
.bs-table th {{ text-align: left; color: {c.muted}; font-weight: 500; }}
.bs-table th, .bs-table td {{ padding: 2px 10px 2px 0; border-bottom: 1px solid {c.grid}; vertical-align: top; }}
@media (prefers-reduced-motion: reduce) {{ * {{ transition: none !important; animation: none !important; }} }}
</style>"""


def frozen_sheet(frozen: bool) -> str:
    """Takes the colour out of every picture while what it shows is no longer true."""
    rule = "filter: grayscale(1) opacity(0.55);" if frozen else "filter: none;"
    return (
        f'<style>[data-testid="stMainBlockContainer"] [data-testid="stVegaLiteChart"], .bs-tiles {{ {rule} }}</style>'
    )
