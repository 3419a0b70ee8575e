"""The token goes in once and comes out nowhere: not in an address, an answer, a log or a page."""

from __future__ import annotations

import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboard import addresses
from dashboard.door import MAX_FAILURES, Door
from dashboard.entrance import PATH, Doorway, Entrance
from dashboard.visit import SEAT, TICKET, cookie_name

TOKEN = "open-sesame-42"
HOST = "192.168.7.8:8501"


async def shows_its_address(request: Request) -> Response:
    return PlainTextResponse(str(request.url))


def site(door: Door | None) -> TestClient:
    doorway = Doorway()
    doorway.door = door
    routes = [
        Route(PATH, doorway.presenter, methods=["GET", "POST"]),
        Route("/{rest:path}", shows_its_address),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Entrance, doorway=doorway)])
    return TestClient(app, base_url=f"http://{HOST}", follow_redirects=False)


def ticket_of(answer: httpx.Response) -> str:
    return answer.cookies.get(cookie_name(TICKET, HOST)) or ""


@pytest.mark.parametrize("path", ["/", "/room", "/deep/er"])
def test_a_token_in_the_address_is_taken_out_and_becomes_a_ticket(path):
    door = Door(TOKEN)
    answer = site(door).get(f"{path}?view=live&token={TOKEN}&lang=ko")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?view=live&lang=ko")
    assert door.admits(ticket_of(answer))
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert answer.headers["referrer-policy"] == "same-origin"
    assert TOKEN not in answer.text + str(answer.headers)


def test_a_wrong_token_in_the_address_is_taken_out_as_well():
    answer = site(Door(TOKEN)).get("/?token=guess")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PATH}?refused=wrong")
    assert not ticket_of(answer)


def test_the_form_lets_in_who_knows_the_token_and_makes_guessers_wait(caplog):
    caplog.set_level(logging.DEBUG)
    door = Door(TOKEN)
    client = site(door)
    assert 'type="password"' in client.get(PATH).text
    for _ in range(MAX_FAILURES):
        answer = client.post(PATH, data={"token": "<b>guess</b>"})
        assert (answer.status_code, ticket_of(answer)) == (401, "")
        assert "guess" not in answer.text, "nothing that was sent is shown again"
    assert client.post(PATH, data={"token": TOKEN}).status_code == 429
    answer = site(Door(TOKEN)).post(PATH, data={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    assert door.admits(ticket_of(answer))
    assert TOKEN not in answer.text + str(answer.headers) + caplog.text


def test_the_presenter_can_become_audience_again():
    client = site(Door(TOKEN))
    client.post(PATH, data={"token": TOKEN})
    assert 'name="leave"' in client.get(PATH).text
    client.post(PATH, data={"leave": "1"})
    assert cookie_name(TICKET, HOST) not in client.cookies


def test_a_form_of_another_site_and_one_that_is_too_large_are_refused():
    client = site(Door(TOKEN))
    assert client.post(PATH, data={"token": TOKEN}, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post(PATH, data={"token": TOKEN}, headers={"origin": f"http://{HOST}"}).status_code == 303
    assert client.post(PATH, content=b"token=" + b"x" * 10_000).status_code == 401
    assert client.post(PATH, content=b"&".join([b"a=b"] * 50)).status_code == 401


def test_without_a_token_there_is_nothing_to_prove():
    client = site(Door())
    assert client.get(PATH).headers["location"] == "./"
    assert client.get("/?token=anything").headers["location"] == "/"
    assert site(None).get(PATH).status_code == 503


@pytest.mark.parametrize(("locale", "word"), [("ko-KR,ko;q=0.9", "발표자"), ("en-US", "Presenter"), ("", "Presenter")])
def test_the_form_speaks_the_browsers_language(locale, word):
    assert word in site(Door(TOKEN)).get(PATH, headers={"accept-language": locale}).text


def test_every_browser_gets_one_seat_and_keeps_it():
    client = site(Door(TOKEN))
    name = cookie_name(SEAT, HOST)
    client.get("/")
    seat = client.cookies[name]
    assert "set-cookie" not in client.get("/").headers
    assert client.cookies[name] == seat
    other = site(Door(TOKEN))
    other.get("/")
    assert other.cookies[name] != seat


def test_two_dashboards_of_one_machine_keep_their_cookies_apart():
    assert cookie_name(TICKET, "127.0.0.1:8501") != cookie_name(TICKET, "127.0.0.1:8502")


def test_only_a_server_that_answers_others_has_an_address_for_the_room():
    assert addresses.own_hosts("127.0.0.1") == addresses.own_hosts("localhost") == ()
    assert addresses.own_hosts("192.168.7.8") == ("192.168.7.8",)
    found = addresses.own_hosts("0.0.0.0")
    assert found
    assert not {"127.0.0.1", "::1", "localhost", "0.0.0.0"} & set(found)
    assert addresses.url("fd00::1", 80) == "http://[fd00::1]:80"
