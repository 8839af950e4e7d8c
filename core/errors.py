"""The exceptions that cross a room's border, and the one place where they become a line for the user.

::

    StitchError                      exit code
    ├── SettingsError                2   a flag, a settings file or a resumed folder that does not fit
    ├── ProblemError                 2   a reference program that cannot be used
    ├── ToolchainError               3   the machine lacks something (compiler, GPU, profiler)
    ├── WorkerError                  3   a trusted worker process died, hung or broke the protocol
    ├── ModelError                   3   a chat endpoint that does not answer usefully
    └── RetrievalError               3   the documentation index

A bad *candidate* is never an exception: it is data, an ``Evaluation`` with a status.
Every error is one sentence on one line: what failed, on what, what to do next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "ModelError",
    "ProblemError",
    "RetrievalError",
    "SettingsError",
    "StitchError",
    "ToolchainError",
    "WorkerError",
    "boundary",
    "one_line",
]


class StitchError(RuntimeError):
    """An expected failure, told in one line.

    A ``RuntimeError``, because LangGraph's server shows the message of those and hides that of unknown kinds.
    """

    exit_code = 3


class SettingsError(StitchError):
    """A setting that cannot be used as given."""

    exit_code = 2


class ProblemError(StitchError):
    """A reference program that cannot be loaded or run."""

    exit_code = 2


class ToolchainError(StitchError):
    """The machine lacks something that was asked for."""


class WorkerError(StitchError):
    """A trusted worker process failed; says nothing about a candidate."""


class ModelError(StitchError):
    """A chat endpoint failed in a way that another try does not mend."""


class RetrievalError(StitchError):
    """The documentation index cannot be built or read."""


def one_line(error: BaseException, limit_chars: int = 400) -> str:
    """The message of ``error`` folded to one line of at most ``limit_chars`` characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + "…"


@contextmanager
def boundary(kind: type[StitchError], what: str, *expected: type[BaseException]) -> Iterator[None]:
    """Turn the ``expected`` exceptions of a library into ``kind``, prefixed with ``what``.

    A ``StitchError`` passes unchanged; anything that is not listed passes too, because an
    unexpected exception is a bug and keeps its traceback.
    """
    try:
        yield
    except StitchError:
        raise
    except expected as error:
        raise kind(f"{what}: {one_line(error)}") from error
