"""Text to tokens and back: byte-level BPE as the model's authors use it, plain bytes for the toy model."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import tokenizers

from model_runner.chat_template import ChatTemplate
from model_runner.detokenizer import IncrementalDetokenizer
from model_runner.errors import ModelFormatError, TokenizerError

_SPACE_MARK = "\u2581"
"""Stands for a space in SentencePiece's vocabularies."""
_FALLBACK_BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A token of theirs that is a byte, for characters that are no tokens."""
_TYPED, _TYPED_END = "\U000f0000", "\U000f0001"
"""Around a control token that a person typed; of the private characters, that no text should have."""
_MOST_COMPOSED = 4
"""Characters that Unicode's composition makes one of, at most: a Greek letter with three marks."""
_NO_CHAT = "this model brings no chat template; give a plain prompt instead"


class Tokenizer(ABC):
    """What the engine asks of any tokenizer.

    vocab_size: token ids are 0 .. vocab_size - 1. eos_token_ids: tokens that end a text. max_chars_per_token: no token
    stands for more characters of a text; 0 = no bound is known. Encoding is thread-safe.
    """

    vocab_size: int
    eos_token_ids: tuple[int, ...]
    max_chars_per_token: int = 0

    @abstractmethod
    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        """Token ids of a text; chat: as the user's turn of a chat, followed by the start of the answer.

        Raises TokenizerError when the text has no tokens in this model.
        """

    @abstractmethod
    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Token ids of a conversation of (role, content), followed by the start of the answer.

        Raises TokenizerError when the model brings no chat template: its own cannot be guessed.
        """

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes:
        """UTF-8 bytes (perhaps part of a character) that a token adds to a text; b"" for control tokens."""

    @property
    def has_chat(self) -> bool:
        """False when chat=True makes no difference because the model brings no chat template."""
        return False

    def decode(self, token_ids: Iterable[int]) -> str:
        """The whole text of these tokens, control tokens left out."""
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")

    def detokenizer(self) -> IncrementalDetokenizer:
        """A new incremental decoder, one for each request."""
        return IncrementalDetokenizer(self.token_bytes)


class BytePairTokenizer(Tokenizer):
    """BPE from a ``tokenizer.json``: byte-level as GPT-2's, or with byte fallback as SentencePiece's.

    A plain text gets the control tokens that the file adds to every text, such as Llama's begin-of-text.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, eos_token_ids: Sequence[int], chat: ChatTemplate | None = None
    ) -> None:
        self._backend = backend
        self._chat = chat
        self._special = {t.content: i for i, t in backend.get_added_tokens_decoder().items() if t.special}
        self._typed = {content: self._as_text(content) for content in self._special} if chat else {}
        self._has_byte_fallback = bool(backend.model.byte_fallback)
        self._byte_of = {character: byte for byte, character in byte_characters().items()}
        self._bytes: dict[int, bytes] = dict.fromkeys(self._special.values(), b"")
        self.vocab_size = backend.get_vocab_size()
        self.max_chars_per_token = _max_chars_per_token(backend)
        self.eos_token_ids = tuple(eos_token_ids)

    @classmethod
    def from_file(cls, path: Path, eos_token_ids: Sequence[int], chat: ChatTemplate | None = None) -> BytePairTokenizer:
        """Raises ModelFormatError naming the file when it cannot be read."""
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for every kind of bad file
            raise ModelFormatError(f"{path}: not a tokenizer file: {error}") from error
        if not isinstance(backend.model, tokenizers.models.BPE):
            raise ModelFormatError(f"{path}: model.type is {type(backend.model).__name__!r}; supported: 'BPE'")
        return cls(backend, eos_token_ids, chat)

    @property
    def has_chat(self) -> bool:
        return self._chat is not None

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        if chat and self.has_chat:
            return self.encode_chat([("user", text)])
        return tuple(self._ids(text, add_special_tokens=True))

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """A control token that is typed inside a turn is text like any other: nobody can end their turn with it."""
        if self._chat is None:
            raise TokenizerError(_NO_CHAT)
        if not any(token in content for token in self._special for _, content in turns):
            return tuple(self._ids(self._chat.render(turns)))
        tokens = "|".join(map(re.escape, sorted(self._special, key=len, reverse=True)))
        foreign = f"[{_TYPED}{_TYPED_END}]"
        marked = [
            (role, re.sub(tokens, rf"{_TYPED}\g<0>{_TYPED_END}", re.sub(foreign, "", text))) for role, text in turns
        ]
        first, *rest = re.split(f"{_TYPED}({tokens}){_TYPED_END}|{foreign}", self._chat.render(marked))
        ids = self._ids(first)
        for typed, text in zip(rest[::2], rest[1::2], strict=True):
            ids += self._typed.get(typed, []) if typed else []
            ids += self._within(text) if text else []
        return tuple(ids)

    def token_bytes(self, token_id: int) -> bytes:
        found = self._bytes.get(token_id)
        if found is None:
            found = self._bytes[token_id] = self._to_bytes(self._backend.id_to_token(token_id))
        return found

    def _ids(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        # For one text alone the library would hold the interpreter's lock all the while, and with it the engine.
        encodings = self._backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encodings[0].ids
        return ids

    def _as_text(self, token: str) -> list[int]:
        """The ids of a control token's letters. Only while it is made: the switch is the whole tokenizer's."""
        self._backend.encode_special_tokens = True
        try:
            return self._within(token)
        finally:
            self._backend.encode_special_tokens = False

    def _within(self, text: str) -> list[int]:
        """The ids of a text that others come before: SentencePiece puts a space before the first of all only."""
        before, ids = self._ids("\n"), self._ids(f"\n{text}")
        return ids[len(before) :] if ids[: len(before)] == before else self._ids(text)

    def _to_bytes(self, token: str | None) -> bytes:
        if token is None:
            return b""
        if self._has_byte_fallback:
            byte = _FALLBACK_BYTE.fullmatch(token)
            return bytes.fromhex(byte[1]) if byte else token.replace(_SPACE_MARK, " ").encode()
        if all(character in self._byte_of for character in token):
            return bytes(self._byte_of[character] for character in token)
        return token.encode()


class ByteTokenizer(Tokenizer):
    """One token a byte, and two control tokens: for the toy model, which has no vocabulary of its own."""

    START = 256
    END = 257

    def __init__(self) -> None:
        self.vocab_size = 258
        self.max_chars_per_token = 1
        self.eos_token_ids = (self.END,)

    @property
    def has_chat(self) -> bool:
        return True

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        return self.encode_chat([("user", text)]) if chat else tuple(text.encode("utf-8", "replace"))

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Who speaks is not told: the toy understands nothing anyway."""
        ids: list[int] = []
        for _, content in turns:
            ids += (self.START, *content.encode("utf-8", "replace"), self.END)
        return (*ids, self.START)

    def token_bytes(self, token_id: int) -> bytes:
        return bytes((token_id,)) if 0 <= token_id < self.START else b""


class TokenIdTokenizer(Tokenizer):
    """For a model folder without ``tokenizer.json``: a text is the token ids themselves, "17 4 256"."""

    def __init__(self, vocab_size: int, eos_token_ids: Sequence[int]) -> None:
        self.vocab_size = vocab_size
        self.eos_token_ids = tuple(eos_token_ids)

    def encode(self, text: str, *, chat: bool = False) -> tuple[int, ...]:
        ids = []
        for word in text.split():
            if not (word.isascii() and word.isdigit() and int(word) < self.vocab_size):
                raise TokenizerError(
                    f"this model has no tokenizer.json, so a prompt must be token ids below {self.vocab_size}, "
                    f"separated by spaces; {word[:40]!r} is not one"
                )
            ids.append(int(word))
        return tuple(ids)

    def encode_chat(self, turns: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        raise TokenizerError(_NO_CHAT)

    def token_bytes(self, token_id: int) -> bytes:
        return f"{token_id} ".encode()


def _max_chars_per_token(backend: tokenizers.Tokenizer) -> int:
    """Characters of a text that one token can stand for at most; 0 where something swallows any number of them."""
    swallows_spaces = any(token.lstrip or token.rstrip for token in backend.get_added_tokens_decoder().values())
    swallows_unknown = backend.model.unk_token and backend.model.fuse_unk and not backend.model.byte_fallback
    state = backend.normalizer.__getstate__().decode() if backend.normalizer else ""
    kinds = set(re.findall(r'"type":"(\w+)"', state))
    if swallows_spaces or swallows_unknown or kinds - {"NFC", "Prepend", "Replace", "Sequence"}:
        return 0
    longest = max(map(len, backend.get_vocab()), default=0)
    return longest * (_MOST_COMPOSED if "NFC" in kinds else 1)


@cache
def byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    table = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in table]
    return table | {byte: chr(256 + index) for index, byte in enumerate(others)}
