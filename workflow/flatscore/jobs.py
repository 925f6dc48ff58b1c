"""What every job of a workflow does around its one library call."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from flatscore.errors import InputError


@contextmanager
def logged(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Send everything a job prints to its log, and yield the terminal for its progress.

    File descriptors are redirected, so the messages of compiled libraries are caught too. An
    :class:`InputError` ends the job with its message, any other exception with its last line;
    the log holds the traceback.

    Parameters
    ----------
    path
        The log file; it is replaced.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = os.fdopen(os.dup(2), "w", buffering=1)
    with Path(path).open("w", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            yield terminal
        except InputError as error:
            traceback.print_exc()
            terminal.write(f"flatscore: {error}\n")
            raise SystemExit(1) from None
        except Exception as error:
            traceback.print_exc()
            terminal.write(f"flatscore: {type(error).__name__}: {error} (see {path})\n")
            raise SystemExit(1) from None
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


def limit_threads() -> None:
    """Let this process and its children compute with one thread each.

    Several jobs run side by side, and torch does not know of the other ones; waiting threads that
    spin would slow the neighbour on a laptop.
    """
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
