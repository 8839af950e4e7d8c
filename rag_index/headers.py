"""C and C++ headers to chunks: each Doxygen comment with the declaration that it documents.

A scanner, not a parser: it needs no compiler and no include path, and what it does not understand it leaves out.
Enumerators and members are gathered under their type, functions stand alone; the groups of ``\\defgroup`` give the
heading path.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.rag_index.chunks import Chunk
from stitchcuda.rag_index.doxygen import Comment, clean
from stitchcuda.rag_index.packing import Section, pack_sections

__all__ = ["parse_header"]

LEAST_DOC_CHARS = 20
MOST_SIGNATURE_CHARS = 600

_TOKEN = re.compile(
    r"(?P<doc>/\*[*!](?![*/]).*?\*/|(?:^[ \t]*//[/!](?!/)[^\n]*\n)+)"
    r"|(?P<other>/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')",
    re.S | re.M,
)
_TYPE = re.compile(r"\b(?:enum(?:\s+(?:class|struct))?|struct|class|union|namespace)\b([^;{}()=]*)\{")
_SKIPPED_NAME = re.compile(
    r"^(?:__attribute__|__declspec|__align__|__launch_bounds__|decltype|noexcept|alignas|explicit|requires"
    r"|_*[A-Z][A-Z0-9_]*|__CUDA_\w+__|__\w+_DECL__)$"
)
_NOISE = re.compile(
    r"\b(?:extern|CUDARTAPI|CUDAAPI|__cudart_builtin__|__CUDA_\w+_DECL__|__CUDA_\w+__|_CCCL_\w+(?!\()|__CUDA_DEPRECATED"
    r"|__DEVICE_FUNCTIONS_DECL__|CUB_\w+|_CCCL_VISIBILITY_\w+)\b\s*"
)


@dataclass(frozen=True)
class _Container:
    name: str
    start: int
    end: int


def parse_header(text: str, *, source: str, page: str, path: str = "", toolkit: str = "") -> list[Chunk]:
    """The chunks of one header.

    Args:
        text: The header.
        source: Name of the source.
        page: Path inside the include folder.
        path: Where the file lies, for links of the form ``file:line``.
        toolkit: Version of the toolkit.
    """
    sections: dict[tuple[str, ...], Section] = {}
    for headings, block, line in _documented(text.replace("\r\n", "\n"), page):
        section = sections.setdefault(headings, Section(headings, link=f"{path}:{line}" if path else ""))
        section.blocks.append(block)
    return pack_sections(list(sections.values()), source=source, page=page, toolkit=toolkit)


def _documented(text: str, page: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """(heading path, block, line) of each documented declaration."""
    comments = [match for match in _TOKEN.finditer(text) if match["doc"]]
    bare = _TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    containers = _containers(bare)
    starts = [container.start for container in containers]
    titles: dict[str, str] = {}
    stack: list[str] = []
    for match in comments:
        comment = clean(match["doc"])
        if comment.defines is not None:
            name, title = comment.defines
            if title:
                titles[name] = title
        if comment.closes and stack:
            stack.pop()
        if comment.opens:
            stack.append(comment.defines[0] if comment.defines else "")
        group = comment.group or next((name for name in reversed(stack) if name), "")
        title = titles.get(group, "")
        if comment.defines is not None or len(comment.text) < LEAST_DOC_CHARS:
            continue
        trailing = comment.text.startswith("<")
        declaration = _before(bare, match.start("doc")) if trailing else _declaration(bare, text, match.end("doc"))
        name = _name(declaration)
        if not name:
            continue
        line = text.count("\n", 0, match.start("doc")) + _comment_lines(match["doc"], trailing)
        inside = [
            container.name
            for container in containers[: bisect_right(starts, match.start("doc"))]
            if container.end > match.start("doc") and container.name
        ]
        yield _entry(page, title, inside, name, declaration, comment, line)


def _comment_lines(raw: str, trailing: bool) -> int:
    """How far below its first line (counted from 1) the thing that a comment describes begins."""
    return 1 if trailing else raw.rstrip("\n").count("\n") + 2


def _entry(
    page: str, title: str, inside: list[str], name: str, declaration: str, comment: Comment, line: int
) -> tuple[tuple[str, ...], str, int]:
    path = tuple(part for part in (page, title, "::".join(inside)) if part)
    text = comment.text.removeprefix("<").strip()
    if "(" not in declaration and inside:
        # A member or an enumerator: with its neighbours it makes a passage.
        return path, f"- `{' '.join(declaration.strip(',; ').split())}`: {' '.join(text.split())}", line
    signature = " ".join(_NOISE.sub("", declaration).split())
    if len(signature) > MOST_SIGNATURE_CHARS:
        signature = signature[: MOST_SIGNATURE_CHARS - 2] + " …"
    return (*path, name), f"```cpp\n{signature}\n```\n\n{text}", line


def _containers(bare: str) -> list[_Container]:
    """Types and namespaces with the span of their braces, in order; unbalanced ones (``#if``) end with the file."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for match in re.finditer(r"[{}]", bare):
        if match[0] == "{":
            stack.append(match.start())
        elif stack:
            pairs[stack.pop()] = match.start()
    found = []
    for match in _TYPE.finditer(bare):
        head = re.split(r":(?!:)", match[1], maxsplit=1)[0]
        words = re.findall(r"\w+", re.sub(r"<[^<>]*>", "", head))
        words = [word for word in words if not _SKIPPED_NAME.match(word) and word != "final"]
        if match[0].startswith("namespace"):
            name = ""
        elif words:
            name = words[-1]
        else:
            after = re.match(r"\s*(\w+)", bare[pairs.get(match.end() - 1, len(bare)) + 1 :][:80])
            name = after[1] if after and "typedef" in bare[max(0, match.start() - 12) : match.start()] else ""
        found.append(_Container(name, match.end() - 1, pairs.get(match.end() - 1, len(bare))))
    return found


def _before(bare: str, position: int) -> str:
    """The text on the line of a trailing comment."""
    start = bare.rfind("\n", 0, position) + 1
    return bare[start:position].strip()


def _declaration(bare: str, text: str, position: int) -> str:
    """What follows a comment, up to its ``;``, ``{`` or, for an enumerator, ``,``; a macro's first line."""
    while True:
        match = re.compile(r"\s*(#[ \t]*\w+)?").match(bare, position)
        if match is None or not match[1]:
            break
        if re.match(r"#[ \t]*define\b", match[1]):
            end = bare.find("\n", match.start(1))
            return text[match.start(1) : end if end >= 0 else len(text)].split("//")[0].rstrip("\\ ")
        # A conditional between the comment and its declaration, with the lines it continues on.
        end = match.end()
        while (end := bare.find("\n", end)) >= 0 and bare[end - 1] == "\\":
            end += 1
        if end < 0:
            return ""
        position = end + 1
    depth = 0
    for token in re.compile(r"[(){};,<>}]").finditer(bare, position, position + 6000):
        mark = token[0]
        if mark in "(":
            depth += 1
        elif mark == ")":
            depth -= 1
        elif depth == 0 and mark in ";{},":
            head = bare[position : token.start()]
            if mark == "," and (head.count("<") > head.count(">") or "(" in head):
                continue
            return head.strip()
    return ""


def _name(declaration: str) -> str:
    """What a declaration declares; empty when that cannot be told."""
    macro = re.match(r"#[ \t]*define\s+(\w+)", declaration)
    if macro:
        return macro[1]
    text = re.sub(r"^template\s*<", "<", declaration)
    while text.startswith("<"):
        depth = 0
        for position, char in enumerate(text):
            depth += (char == "<") - (char == ">")
            if depth == 0:
                text = re.sub(r"^template\s*<", "<", text[position + 1 :].strip())
                break
        else:
            return ""
    kind = re.match(r"(?:typedef\s+)?(?:enum(?:\s+class)?|struct|class|union)\b(.*)", text, re.S)
    if kind and "(" not in text:
        words = [word for word in re.findall(r"\w+", re.split(r":(?!:)", kind[1])[0]) if not _SKIPPED_NAME.match(word)]
        return words[-1] if words else ""
    calls = re.findall(r"(operator\s*[^\s(]+|[A-Za-z_]\w*)\s*\(", text)
    if calls:
        return str(next((name for name in calls if not _SKIPPED_NAME.match(name)), calls[-1]))
    words = re.findall(r"[A-Za-z_]\w*", text.split("=")[0])
    return str(words[-1]) if words else ""
