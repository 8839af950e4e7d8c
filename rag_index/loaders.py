"""The one place that knows the libraries which open HTML and PDF files; they are imported at first use.

PDF text comes from ``langchain-community``'s loader and the outline from pypdf; HTML from Beautiful Soup. The rest of
the room sees blocks of text with heading levels and anchors. Whatever these libraries raise on a broken file ends as
``RetrievalError``.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stitchcuda.core.errors import RetrievalError, boundary

if TYPE_CHECKING:
    from bs4 import Tag

__all__ = ["HtmlBlock", "PdfText", "read_html", "read_pdf"]

SKIPPED = ("script", "style", "nav", "header", "footer", "noscript", "form", "button", "svg", "template", "aside")
CONTENT = ("main", "[role=main]", "article", "div.body", "div.document", "div.content", "body")
"""Where documentation generators (Sphinx, Doxygen, DITA) put the text, most specific first."""
NAVIGATION = "[role=navigation], div.navheader, div.navfooter, div.nav-panel, div.header:has(a[accesskey], a[rel])"
"""Links to neighbouring pages as Sphinx, DocBook and Texinfo write them; Doxygen's ``header`` holds the title."""
UNDECODED_SHARE = 0.05
"""A text with more replacement characters is no text; real pages have a few from a wrongly declared encoding."""
PARAGRAPHS = ("p", "li", "dt", "dd", "figcaption", "blockquote", "caption")
# What pypdf raises on damaged files beside its own errors; none of them is a fault of ours.
BROKEN_PDF = (ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError, OSError, RecursionError)


@dataclass(frozen=True)
class HtmlBlock:
    """A heading (``level`` 1 to 6) or a piece of text (``level`` 0)."""

    level: int
    text: str
    anchor: str = ""


@dataclass(frozen=True)
class PdfText:
    """The text of each page, and where the outline's entries begin: (page counted from 1, depth from 1, title)."""

    pages: tuple[str, ...]
    outline: tuple[tuple[int, int, str], ...]
    title: str


@contextmanager
def _silent(library: str) -> Iterator[None]:
    """No log lines of ``library``: it has one for each oddity of a file, without its name; ours is one a file."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_html(data: bytes) -> tuple[str, list[HtmlBlock]]:
    """Title and blocks of a page, without its navigation.

    Raises:
        RetrievalError: The bytes are no text, or in an encoding that cannot be told.
    """
    from bs4 import BeautifulSoup
    from bs4.builder import ParserRejectedMarkup

    if b"\0" in data[:1024] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RetrievalError("not HTML, the file is binary")
    broken = boundary(RetrievalError, "not readable as HTML", ParserRejectedMarkup, ValueError)
    with warnings.catch_warnings(), _silent("bs4"), broken:
        # Beautiful Soup warns of XML served as HTML and of text like a file name; both are parsed well enough.
        warnings.simplefilter("ignore")
        soup = BeautifulSoup(data, "html.parser")
    text = soup.get_text()
    if text.count("\ufffd") > UNDECODED_SHARE * len(text):
        raise RetrievalError("not HTML, its characters cannot be decoded")
    for tag in (*soup.find_all(SKIPPED), *soup.select(NAVIGATION)):
        if not tag.decomposed:
            tag.decompose()
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    root = next((found for found in map(soup.select_one, CONTENT) if found is not None), soup)
    blocks: list[HtmlBlock] = []
    stack = _inner(root)
    # An explicit stack: broken pages nest thousands deep.
    while stack:
        tag = stack.pop()
        if re.fullmatch(r"h[1-6]", tag.name):
            text = " ".join(tag.get_text(" ").replace("¶", "").replace("\uf0c1", "").split())
            if text:
                blocks.append(HtmlBlock(int(tag.name[1]), text, _anchor(tag)))
        elif tag.name == "pre":
            code = tag.get_text().strip("\n")
            if code.strip():
                blocks.append(HtmlBlock(0, f"```\n{code}\n```"))
        elif tag.name == "table":
            rows = _table(tag)
            if rows:
                blocks.append(HtmlBlock(0, rows))
        elif tag.name in PARAGRAPHS and not tag.find(["pre", "table", "p", "ul", "ol", "dl", "h2", "h3", "h4"]):
            text = " ".join(tag.get_text(" ").split())
            if text:
                blocks.append(HtmlBlock(0, f"- {text}" if tag.name == "li" else text))
        else:
            stack += _inner(tag)
    return title, blocks


def _inner(tag: Tag) -> list[Tag]:
    """The children of a container, last first; text that stands between them becomes a paragraph."""
    from bs4 import BeautifulSoup, Tag
    from bs4.element import Comment, NavigableString

    children: list[Tag] = []
    loose: list[str] = []

    def close() -> None:
        text = " ".join(" ".join(loose).split())
        loose.clear()
        if text:
            paragraph = BeautifulSoup("", "html.parser").new_tag("p")
            paragraph.string = text
            children.append(paragraph)

    for child in tag.children:
        if isinstance(child, NavigableString):
            if not isinstance(child, Comment):
                loose.append(str(child))
        elif isinstance(child, Tag):
            if child.name in ("a", "b", "i", "em", "strong", "code", "tt", "span", "sub", "sup") and not child.find(
                ["p", "pre", "table", "div", re.compile(r"^h[1-6]$")]
            ):
                loose.append(child.get_text(" "))
            else:
                close()
                children.append(child)
    close()
    return children[::-1]


def _anchor(heading: Tag) -> str:
    """The nearest ``id`` or name that a link to the heading can use."""
    own = heading.get("id")
    if own:
        return str(own)
    inner = heading.find(["a", "span"], attrs={"id": True}) or heading.find("a", attrs={"name": True})
    if inner is not None:
        return str(inner.get("id") or inner.get("name"))
    parent = heading.parent
    # Sphinx gives the id to the section around the heading.
    return str(parent.get("id") or "") if parent is not None and parent.name in ("section", "div") else ""


def _table(table: Tag) -> str:
    rows = [
        [" ".join(cell.get_text(" ").split()) for cell in row.find_all(["td", "th"])] for row in table.find_all("tr")
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows if any(row))


def read_pdf(data: bytes) -> PdfText:
    """The text and outline of a PDF.

    Raises:
        RetrievalError: It is broken, encrypted, or has no text (a scan).
    """
    if b"%PDF-" not in data[:1024]:
        raise RetrievalError("not a PDF")
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    broken = boundary(RetrievalError, "broken PDF", PyPdfError, *BROKEN_PDF)
    with _silent("pypdf"), broken, warnings.catch_warnings():
        # langchain-community tells of its own sunset on import; this module is what has to follow it.
        warnings.simplefilter("ignore")
        from langchain_community.document_loaders.parsers.pdf import PyPDFParser
        from langchain_core.documents.base import Blob

        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise RetrievalError("the PDF needs a password")
        documents = list(PyPDFParser(mode="page").lazy_parse(Blob.from_data(data, mime_type="application/pdf")))
        pages = tuple(document.page_content for document in documents)
        outline = tuple(_outline(reader, reader.outline))
        title = str((reader.metadata and reader.metadata.title) or "")
    if not any(page.strip() for page in pages):
        raise RetrievalError("the PDF has no text, it may be a scan")
    return PdfText(pages, outline, " ".join(title.split()))


def _outline(reader: Any, entries: Any, depth: int = 1) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for entry in entries:
        if isinstance(entry, list):
            found += _outline(reader, entry, depth + 1)
            continue
        number = reader.get_destination_page_number(entry)
        if number is not None and number >= 0 and entry.title:
            found.append((number + 1, depth, " ".join(str(entry.title).split())))
    return found
