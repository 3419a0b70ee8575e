"""What stands before the page: the way in for the presenter, and the cookie that tells browsers apart.

A cookie can only be set by an HTTP answer, so this is HTTP and not the page. The token comes once, in ``/?token=`` or
in the form of ``/presenter``; the answer leads to the page's plain address and sets a ticket that scripts cannot read.
"""

from __future__ import annotations

import secrets
from typing import Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard.door import TICKET_S, Door
from dashboard.i18n import N_, Translate, language_of, translator
from dashboard.visit import SEAT, TICKET, cookie_name

PATH: Final = "/presenter"
TOKEN: Final = "token"
MAX_BODY: Final = 4096
LOCKED_DOWN: Final = {
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
}
REFUSALS: Final = {
    "wrong": N_("That is not the token."),
    "wait": N_("Too many wrong tokens came from this address. Wait a minute."),
}
STYLE: Final = (
    "body{font:18px/1.5 'Noto Sans KR','Apple SD Gothic Neo','Malgun Gothic',sans-serif;margin:12vh auto;"
    "max-width:26em;padding:0 1em;color-scheme:light dark}input,button{font:inherit;width:100%;"
    "box-sizing:border-box;padding:.5em;margin:.3em 0 .8em}"
    "p[role=alert]{border-left:4px solid #c62828;padding-left:.6em}"
)

HEAD: Final = (
    '<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    f"<title>Batchscope</title><style>{STYLE}</style></head><body>"
)


class Doorway:
    """Holds the door once the engine has started; before that nobody gets in."""

    def __init__(self) -> None:
        self.door: Door | None = None

    async def presenter(self, request: Request) -> Response:
        """The form (GET), and what it sends (POST): a token, or the wish to be audience again."""
        t = translator(language_of(request.headers.get("accept-language", "").split(",")[0]))
        door = self.door
        if door is None:
            return _form(t, t("The engine is starting."), 503)
        if door.is_open:
            return RedirectResponse("./", 303, LOCKED_DOWN)
        if request.method == "GET":
            refused = REFUSALS.get(request.query_params.get("refused", ""), "")
            ticket = request.cookies.get(cookie_name(TICKET, request.headers.get("host", "")))
            return _leave(t) if door.admits(ticket) else _form(t, t(refused) if refused else "", 200, door.is_told)
        if not _is_own(request):
            return _form(t, t("Another site sent this."), 403)
        given = await _fields(request)
        if "leave" in given:
            answer = RedirectResponse("./", 303, LOCKED_DOWN)
            answer.headers.append("set-cookie", _cookie(request, TICKET, "", 0))
            return answer
        said = door.knock(given.get(TOKEN, ""), _address(request.scope))
        if said != "in":
            return _form(t, t(REFUSALS[said]), 401 if said == "wrong" else 429)
        return _let_in(door, request, "./")

    def with_token(self, request: Request) -> Response | None:
        """The answer to ``/?token=``: the page's address without it. None = there is no token in it."""
        query = parse_qsl(request.url.query, keep_blank_values=True)
        if not any(name == TOKEN for name, _ in query) or self.door is None:
            return None
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        target = f"/?{rest}" if rest else "/"
        given = next(value for name, value in query if name == TOKEN)
        said = self.door.knock(given, _address(request.scope))
        if said == "in":
            return _let_in(self.door, request, target)
        return RedirectResponse(f"{PATH}?refused={said}", 303, LOCKED_DOWN)


class Entrance:
    """Middleware of the page's server: takes tokens out of addresses and gives each browser its seat."""

    def __init__(self, app: ASGIApp, doorway: Doorway) -> None:
        self._app = app
        self._doorway = doorway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request. A token is taken out of any address, since any unknown one shows the page."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._doorway.with_token(request)
        if answer is not None:
            await answer(scope, receive, send)
            return
        if scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        name = cookie_name(SEAT, request.headers.get("host", ""))
        if name in request.cookies:
            await self._app(scope, receive, send)
            return

        async def with_seat(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.append("set-cookie", _cookie(request, SEAT, secrets.token_urlsafe(16), TICKET_S))
            await send(message)

        await self._app(scope, receive, with_seat)


def _let_in(door: Door, request: Request, target: str) -> Response:
    """To the page, with a ticket where one is needed."""
    answer = RedirectResponse(target, 303, LOCKED_DOWN)
    if not door.is_open:
        answer.headers.append("set-cookie", _cookie(request, TICKET, door.ticket(), TICKET_S))
    return answer


def _cookie(request: Request, kind: str, value: str, seconds: int) -> str:
    """A ticket goes with no request that another site starts; a seat does, or a link in a chat would give a new one."""
    name = cookie_name(kind, request.headers.get("host", ""))
    site = "Strict" if kind == TICKET else "Lax"
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite={site}{secure}"


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _is_own(request: Request) -> bool:
    """Browsers say where a form was sent from; programs say nothing."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _fields(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return {}
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=8)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _form(t: Translate, problem: str, status: int, is_told: bool = True) -> Response:
    """The form; its texts come from the catalogue and hold no markup, and nothing that was sent is shown again."""
    alert = f'<p role="alert">{problem}</p>' if problem else ""
    hint = N_("The presenter has the controls. The token stands where the server was started.")
    if not is_told:
        hint = N_(
            "No token was set and there was no terminal to show one, so nobody has the controls. Start again with "
            "BATCHSCOPE_PRESENTER_TOKEN."
        )
    page = (
        f"<h1>{t('Presenter')}</h1>{alert}<p>{t(hint)}</p>"
        f'<form method="post" action=".{PATH}"><label for="token">{t("Token")}</label>'
        f'<input id="token" name="{TOKEN}" type="password" autocomplete="off" required autofocus>'
        f"<button>{t('Become the presenter')}</button></form>"
    )
    return _page(page, t, status)


def _leave(t: Translate) -> Response:
    form = (
        f'<form method="post" action=".{PATH}"><button name="leave" value="1">{t("Be audience again")}</button></form>'
    )
    return _page(f"<h1>{t('You are the presenter.')}</h1>{form}", t, 200)


def _page(body: str, t: Translate, status: int) -> Response:
    body += f'<p><a href="./">{t("To the page")}</a></p>'
    return HTMLResponse(f"{HEAD}{body}</body></html>", status, LOCKED_DOWN)
