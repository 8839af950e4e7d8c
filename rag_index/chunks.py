"""A chunk: one passage of a page, small enough for a prompt, that still knows where it stood."""

from __future__ import annotations

import re

from stitchcuda.core.files import sha256_text
from stitchcuda.core.records import Record

__all__ = ["Chunk", "architecture_name", "architectures_in", "architectures_up_to", "make_chunk"]

_ARCHITECTURE = re.compile(
    r"\bsm_(\d{2,3})[af]?\b|\bcompute capabilit(?:y|ies) (\d{1,2})\.(\d)"
    r"|\b(Volta|Turing|Ampere|Ada|Hopper|Blackwell)\b",
)
GENERATIONS = {
    "Volta": ("sm_70",),
    "Turing": ("sm_75",),
    "Ampere": ("sm_80", "sm_86"),
    "Ada": ("sm_89",),
    "Hopper": ("sm_90",),
    "Blackwell": ("sm_100", "sm_120"),
}
"""Names of generations as the programming guide maps them to compute capabilities."""
TARGETS = (50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)
"""Numbers of the compute capabilities since Maxwell."""


class Chunk(Record):
    """One passage. ``id`` depends on content and place only, so that an unchanged passage keeps it."""

    id: str
    source: str
    """Name of the source, for example ``notes``."""
    page: str
    """Path inside the source, for example ``softmax.md``."""
    headings: tuple[str, ...]
    """From the page's title down."""
    text: str
    references: tuple[str, ...] = ()
    """Where the facts come from, as ``key: section`` with a key of ``sources.toml``."""
    topics: str = ""
    """The page's own list of topics; searched, not shown."""
    link: str = ""
    """Where the passage can be read in full: a URL with its anchor, or ``file:line``."""
    architectures: tuple[str, ...] = ()
    """The ones that the passage names, for example ``sm_90``; empty for one that holds everywhere."""
    toolkit: str = ""
    """Version of the toolkit that the passage describes; empty when it is not about one version."""

    @property
    def citation(self) -> str:
        """``page › heading``; the page's title alone is left out, since the page's name says it."""
        return " › ".join((self.page, *(self.headings[1:] or self.headings)))

    @property
    def search_text(self) -> str:
        """What is indexed: headings count, since a passage often does not repeat its subject."""
        return "\n".join((*self.headings, self.topics, self.text))


def make_chunk(
    source: str,
    page: str,
    headings: tuple[str, ...],
    text: str,
    *,
    references: tuple[str, ...] = (),
    topics: str = "",
    occurrence: int = 0,
    link: str = "",
    toolkit: str = "",
) -> Chunk:
    """A chunk with its id; ``occurrence`` tells equal passages under equal headings apart.

    The link is not part of the id: a passage that moved down by a line is the same passage.
    """
    identity = "\x1f".join((source, page, *headings, text, *references, topics, toolkit, str(occurrence)))
    return Chunk(
        id=sha256_text(identity)[:24],
        source=source,
        page=page,
        headings=headings,
        text=text,
        references=references,
        topics=topics,
        link=link,
        architectures=architectures_in("\n".join((*headings, text))),
        toolkit=toolkit,
    )


def architectures_in(text: str) -> tuple[str, ...]:
    """The architectures that ``text`` names, in its order: ``sm_90``, "compute capability 8.6", "Hopper"."""
    found: dict[str, None] = {}
    for target, major, minor, generation in _ARCHITECTURE.findall(text):
        names = (f"sm_{target}",) if target else (f"sm_{major}{minor}",) if major else GENERATIONS[generation]
        found.update(dict.fromkeys(names))
    return tuple(found)


def architecture_name(compute_capability: str) -> str:
    """``sm_90`` for ``9.0``; empty for what is no compute capability."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", compute_capability.strip())
    return f"sm_{match[1]}{match[2]}" if match else ""


def architectures_up_to(architecture: str) -> tuple[str, ...]:
    """``architecture`` and the older ones, as values of a filter.

    A passage that names an older one only mostly says "from there on"; one that names a newer one only does not hold.
    """
    match = re.fullmatch(r"sm_(\d{2,3})[af]?", architecture)
    if match is None:
        return ()
    own = int(match[1])
    return tuple(f"sm_{number}" for number in sorted({*TARGETS, own}) if number <= own)
