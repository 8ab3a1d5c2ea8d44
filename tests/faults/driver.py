"""Run berth and kill it, without a word, at the n-th step it reaches: driver.py N RECORD -- berth's words.

With N = -1 nothing is killed and the names of all steps are written to RECORD, one a line.
"""

import os
import signal
import sys

number, record, words = int(sys.argv[1]), sys.argv[2], sys.argv[4:]
names: list[str] = []


def listener(name: str) -> None:
    names.append(name)
    if len(names) - 1 == number:
        os.kill(os.getpid(), signal.SIGKILL)


from berth.cli.main import main  # noqa: E402  # the listener is there before anything can be reached
from berth.tools import steps  # noqa: E402

steps.listener = listener
status = main(words)
if number < 0:
    with open(record, "w", encoding="utf-8") as file:
        file.write("\n".join(names))
sys.exit(status)
