"""Style sheet of the live page where it has less width than it is laid out for: tablets, half a screen, a sidebar.

What counts is the width that the sidebar leaves, so the parts of the page ask for their own and not for the window's.
Heights stay fixed for each width: nothing moves when numbers change.
"""

from __future__ import annotations

from typing import Final

HEAD, STATE, TIME, SCRUBBER = "live-head", "live-state", "live-time", "scrubber"
"""Names of the rows of the live page that ask for their width; so does the row of tiles."""
NUMBERS: Final = "prompt-numbers"
"""Name of the row of numbers in the narrow form of a request of one's own."""
PARTS: Final = ", ".join([f".st-key-{name}" for name in (HEAD, STATE, TIME, SCRUBBER)] + [".bs-wide"])
ROW: Final = '[data-testid="stHorizontalBlock"]'
COLUMN: Final = '[data-testid="stColumn"]'
OUTER: Final = f'> [data-testid="stLayoutWrapper"] > {ROW}'
"""From a named row to its columns, not to the columns within them."""


def _buttons() -> str:
    """Buttons side by side share what is left when each has the room for its words; labels of numbers are not broken
    within a word."""
    inner = f".st-key-{SCRUBBER} {COLUMN} {ROW}"
    return f"""
{PARTS} {{ container-type: inline-size; }}
{inner} {{ flex-wrap: wrap; }}
{inner} > {COLUMN} {{ flex: 1 1 auto; width: auto; min-width: max-content; }}
.st-key-{NUMBERS} {ROW} {{ gap: 8px !important; flex-wrap: nowrap; }}
.st-key-{NUMBERS} {COLUMN} {{ min-width: 0; }} .st-key-{NUMBERS} label p {{ font-size: 12px; white-space: nowrap; }}"""


def _half() -> str:
    """About 860 px: the sidebar in a window of 1,200. Everything stays where it is, in smaller type."""
    return f"""
@container (max-width: 1000px) {{
  .bs-tiles {{ height: 82px; }}
  .bs-value {{ font-size: 23px; line-height: 28px; }} .bs-second {{ font-size: 16px; }}
  .bs-gloss {{ white-space: normal; word-break: keep-all; line-height: 15px; height: 30px; }}
  .st-key-{HEAD} {OUTER}, .st-key-{TIME} {OUTER} {{ flex-wrap: nowrap; }}
  .st-key-{HEAD} {OUTER} > {COLUMN}:first-child, .st-key-{TIME} {OUTER} > {COLUMN}:first-child {{
    flex: 1 1 0; min-width: 0; }}
  .st-key-{HEAD} {OUTER} > {COLUMN}:nth-child(n + 2) {{ flex: 0 0 auto; width: auto; min-width: max-content; }}
  .st-key-{HEAD} {OUTER} > {COLUMN}:nth-child(2) {{ flex: 0 0 165px; min-width: 0; }}
  .st-key-{STATE} .bs-account {{ font-size: 11.5px; }}
  .st-key-{STATE} .bs-reason {{ height: 66px; }}
  .st-key-{TIME} .bs-title {{ font-size: 12px; }}
  .st-key-{TIME} [role="tab"] p {{ font-size: 12px; }}
  .st-key-{TIME} {OUTER} > {COLUMN}:last-child {{ flex: 0 0 255px; }}
  .st-key-{SCRUBBER} {OUTER} > {COLUMN} {{ flex: 1 1 0; }}
}}"""


def _tablet() -> str:
    """About 460 to 760 px: what stood in a row stands in two."""
    return f"""
@container (max-width: 760px) {{
  .bs-tiles {{ grid-template-columns: repeat(6, 1fr); height: 180px; }}
  .bs-tile {{ grid-column: span 2; }} .bs-tile:last-child {{ grid-column: span 4; }}
  .bs-value {{ font-size: clamp(20px, 4.3cqi, 29px); line-height: 31px; }} .bs-second {{ font-size: 0.66em; }}
  .st-key-{HEAD} {OUTER}, .st-key-{STATE} {OUTER}, .st-key-{TIME} {OUTER}, .st-key-{SCRUBBER} {OUTER} {{
    flex-wrap: wrap; row-gap: 5px; }}
  .st-key-{HEAD} {OUTER} > {COLUMN}:first-child, .st-key-{STATE} {OUTER} > {COLUMN}:last-child,
  .st-key-{TIME} {OUTER} > {COLUMN}:nth-child(n), .st-key-{SCRUBBER} {OUTER} > {COLUMN} {{
    flex: 1 1 100%; min-width: 100%; }}
  .st-key-{HEAD} {OUTER} > {COLUMN}:nth-child(n + 2) {{ flex: 1 1 auto; }}
  .st-key-{STATE} {OUTER} > {COLUMN}:nth-child(-n + 2) {{ flex: 1 1 calc(50% - 14px); min-width: 0; }}
  .st-key-{STATE} .bs-account {{ font-size: 12.5px; }}
  .st-key-{TIME} .bs-title, .st-key-{TIME} [role="tab"] p {{ font-size: 13px; }}
}}
@container (max-width: 640px) {{
  .st-key-{TIME} .bs-title {{ white-space: normal; height: 38px; }}
}}"""


def _phone() -> str:
    return """
@container (max-width: 440px) {
  .bs-tiles { grid-template-columns: 1fr 1fr; height: auto; }
  .bs-tile { grid-column: span 1; } .bs-tile:last-child { grid-column: span 2; }
  .bs-value { font-size: min(29px, 7cqi); }
}"""


def narrow_sheet() -> str:
    """CSS, in the order in which the later rules overrule the earlier ones."""
    return "".join((_buttons(), _half(), _tablet(), _phone()))
