"""A conversation as the text a model was trained on: its own Jinja template, rendered as transformers renders it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from model_runner.errors import ModelFormatError, TokenizerError, first_line
from model_runner.folder_config import read_json

TEMPLATE_FILE: Final = "chat_template.jinja"
SPECIAL_TOKENS_FILE: Final = "special_tokens_map.json"
SPECIAL_TOKEN_NAMES: Final = (
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
)  # fmt: skip
"""What a template may call by name, beside the messages."""


class ChatTemplate:
    """One template, compiled once; in the sandbox it reaches nothing but what is handed to it.

    where: file and field, for errors. special_tokens: text by name of ``SPECIAL_TOKEN_NAMES``. Raises ModelFormatError
    naming the line when the template cannot be read. Thread-safe.
    """

    def __init__(self, source: str, where: str, special_tokens: Mapping[str, str] | None = None) -> None:
        self._special_tokens = dict(special_tokens or {})
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise ModelFormatError(f"{where}: line {error.lineno} of the template: {error.message}") from error
        except (TemplateError, RecursionError) as error:
            raise ModelFormatError(f"{where}: the template cannot be read: {first_line(error)}") from error

    def render(self, turns: Sequence[tuple[str, str]]) -> str:
        """The text of a conversation of (role, content), up to where the answer begins.

        Raises TokenizerError with the template's own words when it takes no such conversation.
        """
        messages = [{"role": role, "content": content} for role, content in turns]
        values = self._special_tokens | {"tools": None, "documents": None, "add_generation_prompt": True}
        try:
            return self._template.render(messages=messages, **values)
        except Exception as error:  # the template is a program of the model's author, and can fail in any way
            reason = f"{type(error).__name__}: " if not isinstance(error, TemplateError) else ""
            raise TokenizerError(
                f"the model's chat template does not take this conversation: {reason}{first_line(error)}"
            ) from error


def read_chat_template(folder: Path, settings_path: Path, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """The template of a model folder; None when there is none.

    settings: content of ``tokenizer_config.json``, at settings_path. A file of its own goes before it, as in
    transformers; of several named ones the "default" is taken. Raises ModelFormatError naming file and field.
    """
    path = folder / TEMPLATE_FILE
    if path.exists():
        try:
            source, where = path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise ModelFormatError(f"{path}: not readable: {first_line(error)}") from error
    else:
        where = f"{settings_path}: chat_template"
        found = _default(settings.get("chat_template"), where)
        if found is None:
            return None
        source = found
    return ChatTemplate(source, where, _special_tokens(folder, settings))


def _default(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    named = value if isinstance(value, list) else []
    templates = {item.get("name"): item.get("template") for item in named if isinstance(item, dict)}
    source = templates.get("default")
    if not isinstance(source, str):
        raise ModelFormatError(f"{where}: it must be a text, or a list of name and template with one named 'default'")
    return source


def _special_tokens(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    path = folder / SPECIAL_TOKENS_FILE
    given = (read_json(path) if path.exists() else {}) | dict(settings)
    found = {}
    for name in SPECIAL_TOKEN_NAMES:
        value = given.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


class _Generation(Extension):
    """``{% generation %}`` marks what a model has written, for training; here its content is text like any other."""

    tags = {"generation"}  # noqa: RUF012  # a plain attribute in Jinja's own class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    """What transformers gives a template (``utils/chat_template_utils.py``)."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _now
    return environment


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    """Jinja's own would write HTML's entities."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    """By the local clock, as transformers does: some models are told the day."""
    return datetime.now().strftime(form)
