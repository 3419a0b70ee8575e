"""A text ends at its first stop string, however it is cut into pieces, and no part of a stop string is let out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_runner.http.stop_strings import StopStrings

LETTERS = st.text(alphabet="abé🚀", max_size=30)


def by_the_letter(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """The rule, written out: read letter by letter; the first stop string that is complete ends the text."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end if include else end - len(longest)], longest
    return text, None


@given(LETTERS, st.lists(st.text(alphabet="abé🚀", min_size=1, max_size=4), max_size=4), st.data(), st.booleans())
def test_the_cut_into_pieces_changes_nothing(text, stops, data, include):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected, stop = by_the_letter(text, stops, include)
    finder = StopStrings(stops, include=include)
    shown = ""
    for piece in pieces:
        shown += finder.add(piece)
        assert expected.startswith(shown), "something was let out that must be taken back"
    assert shown + finder.flush() == expected
    assert finder.found == stop


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["Hello E", "N", "D more"], ["Hello ", "", ""]),
        (["an E", "Nd"], ["an ", "ENd"]),
        (["EEN", "D"], ["E", ""]),
    ],
)
def test_what_might_become_a_stop_string_is_held_back_and_let_out_when_it_does_not(pieces, shown):
    finder = StopStrings(["END"])
    assert [finder.add(piece) for piece in pieces] == shown


def test_text_that_is_not_to_be_searched_ends_nothing():
    finder = StopStrings(["END"])
    assert finder.pass_on("an END") == "an END"
    assert finder.add(" at the END.") == " at the "
