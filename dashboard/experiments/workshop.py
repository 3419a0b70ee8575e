"""Where experiments of this server lie and run: folders that survive a restart, one child process at a time."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import streamlit as st

from dashboard.desk import Desk
from dashboard.experiments.entry import Entry
from dashboard.experiments.findings import FindingsBook
from dashboard.experiments.form import UPLOAD_FILE, toml_of
from dashboard.experiments.plan import SpeedBook
from experiments.runs.folder import MANIFEST_FILE, ExperimentFolder, Manifest, write_whole
from experiments.runs.progress import ask_to_cancel, read_progress
from experiments.runs.spec import Spec, SpecError
from model_runner.cache_place import cache_root

T = TypeVar("T")

SPEC_FILE: Final = "spec.toml"
LOG_FILE: Final = "log.txt"
REPORT_FILE: Final = "report.json"
PRICES_FILE: Final = "prices.json"
"""Of a simulation: what came out, and the step times of the live engine that it rests on."""
PROGRESS: Final = re.compile(r"([\d,]+) of ([\d,]+) requests have come")
SHOWN: Final = 100
"""The newest folders are listed, no more."""
MAX_LOG: Final = 2000
"""Characters of a log's end that are shown."""
ROOT: Final = Path(__file__).resolve().parents[2]


class BusyError(Exception):
    """Another experiment runs: two at once would measure each other."""


@dataclass(frozen=True, slots=True)
class Job:
    """A child process under way. name: of its folder."""

    name: str
    path: Path
    process: subprocess.Popen[bytes]
    began: float


class Workshop:
    """The experiments of one server. May be called from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.findings = FindingsBook()
        self.speed = SpeedBook()
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._manifests: dict[Path, tuple[int, Manifest]] = {}

    @property
    def job(self) -> Job | None:
        """What runs now, None when nothing does."""
        job = self._job
        return job if job is not None and job.process.poll() is None else None

    def entries(self) -> tuple[Entry, ...]:
        """The newest folders, the newest first."""
        try:
            found = sorted((path for path in self.folder.iterdir() if path.is_dir()), reverse=True)
        except OSError:
            return ()
        return tuple(self._entry(path) for path in found[:SHOWN])

    def entry(self, name: str) -> Entry | None:
        """The folder of that name; None where there is none."""
        path = self.folder / name
        return self._entry(path) if name and path.parent == self.folder and path.is_dir() else None

    def begin(self, spec: Spec, upload: bytes | None, then: Callable[[], None]) -> str:
        """Make a folder with the spec, and run it. upload: the workload's file where the spec names one.

        then: called in a thread when the process has ended. Gives the folder's name. Raises BusyError, SpecError.
        """
        with self._lock:
            self._refuse()
            path = self._fresh(spec.kind)
            if upload is not None:
                write_whole(path / UPLOAD_FILE, upload)
            write_whole(path / SPEC_FILE, toml_of(spec))
            self._run(path, ["run", str(path / SPEC_FILE), "--out", str(path)], then)
            return path.name

    def resume(self, name: str, then: Callable[[], None]) -> None:
        """Go on with what is missing in a folder. Raises BusyError, SpecError."""
        with self._lock:
            self._refuse()
            path = self.folder / name
            if path.parent != self.folder or not (path / SPEC_FILE).is_file():
                raise SpecError(f"{name}: no {SPEC_FILE} in it")
            self._run(path, ["run", str(path / SPEC_FILE), "--out", str(path)], then)

    def other(self, kind: str, arguments: Callable[[Path], Sequence[str]], then: Callable[[], None]) -> str:
        """Run another command of ``python -m experiments`` in a folder of its own. Raises BusyError, SpecError."""
        with self._lock:
            self._refuse()
            path = self._fresh(kind)
            self._run(path, arguments(path), then)
            return path.name

    def cancel(self) -> None:
        """Ask what runs to stop: runs that are finished stay. Nothing happens when nothing runs."""
        job = self.job
        if job is not None:
            with contextlib.suppress(OSError):
                ask_to_cancel(job.path)
            job.process.send_signal(signal.SIGTERM)

    def log(self, name: str) -> str:
        """The end of what the process of a folder printed."""
        try:
            data = (self.folder / name / LOG_FILE).read_bytes()[-4 * MAX_LOG :]
        except OSError:
            return ""
        return data.decode("utf-8", "replace")[-MAX_LOG:]

    def simulated(self, name: str) -> tuple[int, int]:
        """(requests that have come, all of them) of a simulation, as far as it has said; (0, 0) before that."""
        found = PROGRESS.findall(self.log(name))
        return (int(found[-1][0].replace(",", "")), int(found[-1][1].replace(",", ""))) if found else (0, 0)

    def simulations(self) -> tuple[Path, ...]:
        """The newest simulations that are over and told something, the newest first."""
        found = sorted(self.folder.glob(f"*-whatif/{REPORT_FILE}"), reverse=True)
        return tuple(path.parent for path in found[:SHOWN])

    def _refuse(self) -> None:
        if self.job is not None:
            raise BusyError

    def _fresh(self, kind: str) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")[:-3]
        path = self.folder / f"{stamp}-{re.sub(r'[^a-z]', '', kind)}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise SpecError(f"{path}: {error.strerror or error}") from error
        return path

    def _run(self, path: Path, arguments: Sequence[str], then: Callable[[], None]) -> None:
        command = [sys.executable, "-m", "dashboard.experiments.minder", *arguments]
        try:
            with (path / LOG_FILE).open("ab") as log:
                process = subprocess.Popen(
                    command, env=environment(), stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            raise SpecError(f"{path}: {error.strerror or error}") from error
        self._job = Job(path.name, path, process, time.time())
        threading.Thread(target=self._wait, args=(process, then), name="experiment", daemon=True).start()

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], then: Callable[[], None]) -> None:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        then()

    def _entry(self, path: Path) -> Entry:
        return Entry(path.name, path, self._manifest(path), read_progress(path))

    def _manifest(self, path: Path) -> Manifest | None:
        try:
            changed = (path / MANIFEST_FILE).stat().st_mtime_ns
            kept = self._manifests.get(path)
            if kept is None or kept[0] != changed:
                found = ExperimentFolder(path).manifest()
                if found is None:
                    return None
                kept = self._manifests[path] = changed, found
        except (OSError, SpecError):
            return None
        return kept[1]


def holding(desk: Desk, hold: bool, begin: Callable[[Callable[[], None]], T]) -> T:
    """Begin something with what is to be called at its end; where it cannot begin, nothing stays held."""
    release = held(desk, on=hold)
    try:
        return begin(release)
    except Exception:
        release()
        raise


def held(desk: Desk, *, on: bool) -> Callable[[], None]:
    """What lets the live engine go again after an experiment; on: hold it from now on, where nobody holds it already.

    It is let go only while the pause is this one: whoever changed it meanwhile is obeyed.
    """
    if not on or desk.policy.paused:
        return lambda: None
    version = desk.change(lambda policy: replace(policy, paused=True)).reply.version

    def release() -> None:
        if desk.policy.version == version:
            desk.change(lambda policy: replace(policy, paused=False))

    return release


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


# An edit of this body would make Streamlit call it again while the child of the first goes on: keep it one line.
@st.cache_resource(show_spinner=False)
def shared() -> Workshop:
    """The workshop of this process."""
    return Workshop(cache_root() / "experiments")
