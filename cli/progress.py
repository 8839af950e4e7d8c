"""Progress of a run on stderr: a live table on a terminal, plain lines elsewhere.

Comes in: the events of ``graph.solve``. One line per event when plain; on a terminal one row per attempt,
and below them what is happening now and for how long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["EventLike", "Progress", "show_progress"]

ROWS_SHOWN = 12
"""Attempts in the live table; earlier ones are in the run folder."""
FRAMES = "|/-\\"
COLOURS = {"passed": "green", "machine_error": "magenta"}


class EventLike(Protocol):
    """What is read of ``graph.solve.Event``."""

    @property
    def stage(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def attempt(self) -> int | None: ...
    @property
    def status(self) -> str | None: ...
    @property
    def speedup(self) -> float | None: ...


class Progress(Protocol):
    def __call__(self, event: EventLike) -> None: ...

    def note(self, text: str) -> None:
        """What the events from here on are about, for example the next problem of a batch."""

    def keep(self, text: str) -> None:
        """A line that stays when the live table is gone."""


def message_of(event: EventLike) -> str:
    """The event's message without what stands beside it anyway: the number of the attempt, the bare status."""
    text = event.message.removeprefix(f"attempt {event.attempt}: ")
    return "" if text == event.status else text


class PlainProgress:
    """A line per event; for logs and pipes."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, event: EventLike) -> None:
        parts = [event.stage]
        if event.attempt is not None:
            parts.append(f"attempt {event.attempt}")
        if event.status:
            parts.append(event.status)
        if event.speedup is not None:
            parts.append(f"{event.speedup:.2f}x")
        if message := message_of(event):
            parts.append(message)
        self.note(" · ".join(parts))

    def note(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f}s] {text}", file=sys.stderr, flush=True)

    def keep(self, text: str) -> None:
        self.note(text)


class LiveProgress:
    """A line per attempt, and one that turns: seconds in all (and in this stage), what is happening now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = self._stage_started = time.monotonic()
        self._attempts: dict[int, tuple[str, float | None, str]] = {}
        self._now = "starting"
        self._title = ""

    def __call__(self, event: EventLike) -> None:
        attempt = f"attempt {event.attempt} · " if event.attempt is not None else ""
        message = message_of(event)
        self._now = f"{attempt}{event.stage}" + (f" · {message}" if message else "")
        self._stage_started = time.monotonic()
        if event.attempt is not None and event.status:
            self._attempts[event.attempt] = (event.status, event.speedup, message)

    def note(self, text: str) -> None:
        self._title = text
        self._attempts.clear()
        self._now, self._stage_started = "starting", time.monotonic()

    def keep(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text))

    def __rich__(self) -> RenderableType:
        """Whole lines that are cut, not wrapped: a table would give up its short columns on a narrow terminal."""
        from rich.console import Group
        from rich.text import Text

        def line(*parts: str | tuple[str, str]) -> Text:
            return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")

        lines = [line((self._title, "bold"))] if self._title else []
        for number, (status, speedup, message) in list(self._attempts.items())[-ROWS_SHOWN:]:
            ratio = "" if speedup is None else f"{speedup:.2f}x"
            colour = COLOURS.get(status, "red")
            lines.append(line(f"{number:>4}  ", (f"{status:<13}", colour), f"{ratio:>8}  {message}"))
        now = time.monotonic()
        frame = FRAMES[int(now * 8) % len(FRAMES)]
        clock = f"{now - self._started:.0f} s ({now - self._stage_started:.0f} s)"
        lines.append(line((frame, "cyan"), f" {clock}  {self._now}"))
        return Group(*lines)


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Progress on stderr for as long as the block runs."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    live = LiveProgress(console)
    with Live(live, console=console, refresh_per_second=4, transient=True):
        yield live
