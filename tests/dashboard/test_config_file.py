"""Streamlit's own settings: one broken line and it takes none of them, and would listen on every address."""

from __future__ import annotations

import tomllib
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[2] / ".streamlit" / "config.toml"


def test_the_settings_can_be_read_and_keep_the_page_on_this_machine():
    settings = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    assert settings["server"]["address"] == "127.0.0.1"
    assert settings["runner"]["postScriptGC"] is False
    assert settings["browser"]["gatherUsageStats"] is False
