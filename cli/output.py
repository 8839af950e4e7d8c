"""Where words go: data on stdout, chatter on stderr, one line per expected error.

With ``--json`` a command prints exactly one JSON object on stdout, an error included.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

from stitchcuda.core.errors import StitchError, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "INTERRUPTED",
    "MACHINE_FAILED",
    "NOT_SOLVED",
    "SOLVED",
    "add_row",
    "command",
    "new_table",
    "note",
    "print_json",
    "printed_objects",
    "stdout_console",
]

SOLVED, NOT_SOLVED, MACHINE_FAILED, INTERRUPTED = 0, 1, 3, 130
PIPED_WIDTH = 160
"""Columns of a table that goes to a file or a pipe, where nothing says how wide a line may be."""

P = ParamSpec("P")
R = TypeVar("R")


_printed_objects = 0


def printed_objects() -> int:
    """How many JSON objects this process has printed."""
    return _printed_objects


def print_json(value: Any) -> None:
    """One JSON object on stdout, in ASCII: readable whatever the terminal's encoding and the file names are."""
    global _printed_objects
    _printed_objects += 1
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True, default=str) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """One line of chatter on stderr."""
    print(text, file=sys.stderr, flush=True)


def stdout_console() -> Console:
    """A console for tables; follows ``NO_COLOR`` and the width of the terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(file=sys.stdout, highlight=False, width=width)


NUMERIC = frozenset({"attempt", "attempts", "seconds", "speed-up", "A speed-up", "B speed-up", "B / A"})


def new_table(*titles: str) -> Table:
    """A plain table that folds long cells instead of cutting them."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in NUMERIC else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    """A row of literal text: brackets in a compiler's message are no markup."""
    from rich.text import Text

    table.add_row(*[Text(cell) for cell in cells])


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Turn a command's expected errors and ^C into one line and an exit code; anything else keeps its traceback.

    The wrapped function may have a parameter ``as_json``: then the error is also the JSON object on stdout.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StitchError as error:
            kind, message, code = type(error).__name__, one_line(error), error.exit_code
        except KeyboardInterrupt as interrupt:
            kind, message, code = "Interrupted", str(interrupt) or "interrupted", INTERRUPTED
        note(message if kind == "Interrupted" else f"error: {message}")
        if kwargs.get("as_json"):
            print_json({"error": kind, "message": message, "exit_code": code})
        raise typer.Exit(code)

    return run
