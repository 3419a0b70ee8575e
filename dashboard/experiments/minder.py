"""``python -m dashboard.experiments.minder COMMAND ...``: ``python -m experiments COMMAND ...``, for as long as its
parent lives.

Standard input is the parent's pipe: its end means that the parent is gone, however it died. The experiment is then
asked to stop as by Ctrl-C, so that its finished runs stay.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

from experiments.__main__ import main

GRACE_S: Final = 5.0
"""How long a step in flight, or a model that is being loaded, may take to end."""


def _follow_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(3)


if __name__ == "__main__":
    threading.Thread(target=_follow_parent, name="parent", daemon=True).start()
    sys.exit(main(sys.argv[1:]))
