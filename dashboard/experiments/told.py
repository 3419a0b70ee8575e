"""Refusals and facts of experiments in the language of the page."""

from __future__ import annotations

from dashboard.experiments.ranges import FieldsError
from dashboard.i18n import translator
from dashboard.refusals import refusal_words
from experiments.i18n.told import told


def refused(error: Exception, language: str) -> str:
    """Why something cannot be run or read; not escaped."""
    if isinstance(error, FieldsError):
        return error.words(translator(language))
    return fact(str(error), language)


def fact(text: str, language: str) -> str:
    """A sentence that came as English text; what nobody knows is shown as it came. Not escaped."""
    words = told(text, language)
    return refusal_words(text, translator(language)) if words == text and language != "en" else words
