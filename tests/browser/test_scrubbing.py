"""A bad address in a real browser, in both languages: the page says what is wrong with it and shows the present."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import WAIT_MS

pytestmark = pytest.mark.browser

BAD_STEP = {
    "en-US": "?step=soon: a whole number from 1 on is needed, as in ?step=120. Shown: live.",
    "ko-KR": "주소의 ?step=soon: ?step=120처럼 1 이상의 정수여야 합니다. 실시간 화면을 보여 줍니다.",
}


@pytest.mark.parametrize("locale", sorted(BAD_STEP))
def test_an_address_that_names_no_step_says_so_and_shows_the_present(open_page, server, locale):
    page = open_page(locale=locale, address=f"{server.url}/?step=soon")
    expect(page.locator("#bs-strip")).to_contain_text(BAD_STEP[locale], timeout=WAIT_MS)
    assert page.locator(".bs-past").count() == 0
