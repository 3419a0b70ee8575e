"""A file as numbered lines or as one text, hashed on the way and never read past its limits."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from experiments.traces.errors import TraceError
from experiments.traces.limits import MAX_DOCUMENT_BYTES, MAX_LINE_BYTES, MAX_TABLE_BYTES

_HEAD_BYTES = 64 * 2**10
_PIECE = 4 * 2**20


class Source:
    """One open file. Reading does not change it.

    name: opens each message. sha256 is of the whole file, also where reading stopped early.
    """

    def __init__(self, stream: BinaryIO, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._stream = stream
        self._hash = hashlib.sha256()

    def head(self) -> bytes:
        """The first bytes, for telling the format; the position does not move."""
        head = self._stream.read(_HEAD_BYTES)
        self._stream.seek(0)
        return head

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number from 1, text without its end) of every line. Raises TraceError on a long or undecodable one."""
        if self.size > MAX_TABLE_BYTES:
            raise TraceError(self.name, f"has {self.size} bytes, at most {MAX_TABLE_BYTES} are read")
        number = 0
        while line := self._stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            self._hash.update(line)
            if len(line) > MAX_LINE_BYTES:
                raise TraceError(self.name, f"is longer than {MAX_LINE_BYTES} bytes", line=number)
            text = self._decode(line, number).removesuffix("\n").removesuffix("\r")
            if "\r" in text:
                # Some readers end a row here, others do not: which rows are meant cannot be told.
                raise TraceError(self.name, "holds a carriage return that does not end the line", line=number)
            yield number, text

    def text(self) -> str:
        """The whole file. Raises TraceError when it is too large or not UTF-8."""
        if self.size > MAX_DOCUMENT_BYTES:
            raise TraceError(self.name, f"has {self.size} bytes, at most {MAX_DOCUMENT_BYTES} are read")
        data = self._stream.read(MAX_DOCUMENT_BYTES + 1)
        self._hash.update(data)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise TraceError(self.name, f"is not UTF-8 text at byte {error.start} of the file", line=line) from error

    def sha256(self) -> str:
        """Of everything, so it reads what is left."""
        while piece := self._stream.read(_PIECE):
            self._hash.update(piece)
        return self._hash.hexdigest()

    def _decode(self, line: bytes, number: int) -> str:
        try:
            return line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise TraceError(self.name, f"is not UTF-8 text at byte {error.start} of the line", line=number) from error


@contextmanager
def opened(file: Path | bytes, name: str) -> Iterator[Source]:
    """A Source of a path or of bytes. Raises TraceError when the file cannot be read."""
    if isinstance(file, bytes):
        yield Source(io.BytesIO(file), name, len(file))
        return
    try:
        if not file.is_file():
            raise TraceError(str(file), "is not a file" if file.exists() else "there is no such file")
        with file.open("rb") as stream:
            yield Source(stream, str(file), file.stat().st_size)
    except OSError as error:
        raise TraceError(str(file), error.strerror or str(error)) from error
