"""Tables as CSV files, made when somebody asks for one and not before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pandas as pd
import streamlit as st

from dashboard.i18n import Translate

FORMULA: Final = re.compile(r"^[\s\x00-\x1f\u200b\ufeff]*[=+\-@]|^[\t\r]")
"""Text that a spreadsheet would compute instead of show (CWE-1236)."""


def guarded_text(value: object) -> object:
    """Text that begins like a formula gets an apostrophe in front, as spreadsheets write text; numbers stay."""
    return f"'{value}" if isinstance(value, str) and FORMULA.search(value) else value


def csv_of(table: pd.DataFrame) -> bytes:
    """UTF-8 with a byte order mark, so that spreadsheets show Korean; one header line, no index."""
    safe = table.map(guarded_text)
    return safe.to_csv(index=False).encode("utf-8-sig")


def csv_button(label: str, make: Callable[[], pd.DataFrame], file_name: str, key: str, t: Translate) -> None:
    """A button whose table is made on the server at the click. make: runs on a thread without a page."""
    st.download_button(
        label,
        lambda: csv_of(make()),
        file_name=f"batchscope-{file_name}.csv",
        mime="text/csv",
        key=key,
        on_click="ignore",
        icon=":material/download:",
        width="stretch",
        help=t("A CSV file, made when you press; units are in the names of the columns."),
    )
