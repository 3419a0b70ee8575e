"""A presenter and two of the audience, one of them on a phone in Korean: a vote, a reveal, and no control for them."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from dashboard.addresses import own_hosts
from tests.browser.conftest import LAST_CHART, WAIT_MS, settles
from tests.browser.serving import dashboard

pytestmark = pytest.mark.browser

TOKEN = "open-sesame-42"
QUESTION = "What becomes of <b>TTFT</b>?"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("room") / "log"


@pytest.fixture(scope="module")
def server(log):
    with dashboard(log, BATCHSCOPE_RATE="2", BATCHSCOPE_PRESENTER_TOKEN=TOKEN) as running:
        yield running


@pytest.fixture
def enter(browser, server):
    """``enter(path, ...)``: a page of a browser of its own, and the text of every frame that came to it."""
    contexts = []

    def one(path: str = "/", locale: str = "en-US", **options: object):
        options = {"viewport": {"width": 1440, "height": 900}, **options}
        context = browser.new_context(locale=locale, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        frames: list[bytes] = []
        page.on("websocket", lambda ws: ws.on("framereceived", lambda data: frames.append(data)))
        page.goto(server.url + path)
        return page, frames

    yield one
    for context in contexts:
        context.close()


def ask(presenter) -> None:
    presenter.get_by_role("textbox", name="A question of your own").fill(QUESTION)
    presenter.get_by_role("textbox", name="Choices, one a line").fill("It grows\nIt shrinks")
    presenter.get_by_role("textbox", name="A question of your own").focus()
    presenter.get_by_role("button", name="Ask the room").click()
    expect(presenter.locator("#bs-question")).to_contain_text(QUESTION, timeout=WAIT_MS)


def test_the_room_votes_sees_the_result_and_has_no_control(enter, log):
    presenter, _ = enter(f"/?view=room&token={TOKEN}")
    assert TOKEN not in presenter.url
    ask(presenter)

    desk, frames = enter()
    phone, _ = enter(locale="ko-KR", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    expect(phone.locator("#bs-question")).to_contain_text("투표가 진행 중입니다", timeout=WAIT_MS)
    for page, choice in ((desk, "It grows"), (phone, "It shrinks")):
        button = page.get_by_role("button", name=choice)
        assert button.bounding_box()["height"] >= 44, "a thumb must hit it"
        button.click()
        expect(page.get_by_role("button", name=f"✓ {choice}")).to_be_visible(timeout=WAIT_MS)
        expect(page.locator(".bs-tally"), "hidden until it is revealed").to_have_count(0, timeout=WAIT_MS)
    phone.get_by_role("button", name="It grows").click()
    expect(presenter.locator("#bs-here")).to_contain_text("Votes: 2", timeout=WAIT_MS)
    presenter.reload()
    expect(presenter.locator(".bs-tally em").first).to_have_text("2", timeout=WAIT_MS)

    settles(phone, "() => document.documentElement.scrollWidth <= 390", True)
    desk.locator("[data-testid=stVegaLiteChart] svg").nth(LAST_CHART).wait_for()
    for name in ("Pause", "Burst of", "Restart the engine", "Send", "Evict now"):
        expect(desk.get_by_role("button", name=name)).to_have_count(0, timeout=WAIT_MS)
    controls = ":is([data-testid=stSlider], [data-testid=stTextArea], [data-testid=stNumberInput])"
    others = desk.locator(f"{controls}:not(.st-key-scrubber *)")
    expect(others, "a look back acts on nothing but this page").to_have_count(0, timeout=WAIT_MS)

    presenter.get_by_role("button", name="Show the result").click()
    for page in (desk, phone):
        expect(page.locator(".bs-tally em")).to_have_text(["2", "0"], timeout=WAIT_MS)
        expect(page.get_by_role("button", name="It shrinks")).to_have_count(0, timeout=WAIT_MS)

    desk.reload()
    expect(desk.locator(".bs-tally em")).to_have_text(["2", "0"], timeout=WAIT_MS)
    assert desk.evaluate("document.cookie").count("batchscope") == 0, "scripts cannot read ticket or seat"
    everything = b"".join(f if isinstance(f, bytes) else f.encode() for f in frames)
    assert everything
    assert TOKEN.encode() not in everything
    assert TOKEN not in desk.content()
    assert TOKEN not in log.read_text()


def status_of(url: str, key: str = "") -> int:
    request = urllib.request.Request(f"{url}/v1/models", headers={"authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_with_a_presenter_the_api_on_the_same_port_asks_for_the_token(server):
    assert status_of(server.url) == 401
    assert status_of(server.url, "guess") == 401
    assert status_of(server.url, TOKEN) == 200


def test_the_form_makes_a_presenter_and_audience_again(enter):
    page, _ = enter("/presenter")
    page.get_by_label("Token").fill("a guess")
    page.get_by_role("button", name="Become the presenter").click()
    expect(page.get_by_role("alert")).to_have_text("That is not the token.")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Become the presenter").click()
    expect(page.locator(".st-key-pause button").first).to_be_visible(timeout=WAIT_MS)
    page.reload()
    expect(page.locator(".st-key-pause button").first).to_be_visible(timeout=WAIT_MS)
    page.get_by_role("link", name="Be audience again").click()
    page.get_by_role("button", name="Be audience again").click()
    expect(page.locator("#bs-role")).to_contain_text("You are in the audience", timeout=WAIT_MS)
    expect(page.locator(".st-key-pause button")).to_have_count(0, timeout=WAIT_MS)


def test_served_to_others_without_a_token_and_a_terminal_everybody_looks_and_nobody_acts(browser, tmp_path):
    log = tmp_path / "log"
    with dashboard(log, STREAMLIT_SERVER_ADDRESS="0.0.0.0") as server:
        host = own_hosts("0.0.0.0")[0]
        outside = server.url.replace("127.0.0.1", host)
        page = browser.new_page()
        page.goto(outside)
        expect(page.locator("#bs-role")).to_contain_text("You are in the audience", timeout=WAIT_MS)
        page.locator("[data-testid=stVegaLiteChart] svg").nth(LAST_CHART).wait_for(timeout=WAIT_MS)
        expect(page.locator(".st-key-pause button")).to_have_count(0, timeout=WAIT_MS)
        page.close()
        assert status_of(server.url) == 401
        told = log.read_text()
        assert f"For the room: {outside}" in told
        assert "Nobody has the controls: BATCHSCOPE_PRESENTER_TOKEN is not set" in told
        assert "token=" not in told
