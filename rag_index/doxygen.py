"""The text of a Doxygen comment as plain prose, and the commands in it that say where it belongs."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Comment", "clean"]

_INTERNAL = re.compile(r"[\\@](internal|cond)\b.*?(?:[\\@]end(?:\1)\b|\Z)", re.S)
_GROUP = re.compile(r"[\\@](defgroup|addtogroup|ingroup)\s+(\w+)[ \t]*([^\n]*)")
_LISTS = re.compile(r"[\\@](?:sa|see)\b.*?(?=\n\s*\n|\n\s*[\\@][a-z]|\Z)", re.S)
_REF = re.compile(r"[\\@](?:ref|link)\s+(?:::)?([^\s\"]+)(?:\([^)]*\))?(?:\s*\"([^\"]*)\")?")
_SECTIONS = {
    "return": "Returns:",
    "returns": "Returns:",
    "retval": "Returns",
    "note": "Note:",
    "warning": "Warning:",
    "deprecated": "Deprecated:",
    "pre": "Before the call:",
    "remark": "Remark:",
    "attention": "Attention:",
    "par": "",
    "brief": "",
    "details": "",
    "short": "",
}
_LABEL = re.compile(r"[\\@](" + "|".join(_SECTIONS) + r")\b[ \t]*")
_PARAMETER = re.compile(r"[\\@]t?param(?:\s*\[[a-z, ]+\])?\s+(\w+)[ \t]*(?:-[ \t]*)?")
_FORMATTED = re.compile(r"[\\@](?:p|c|b|e|a|em)\s+([^\s,.;]+)")
_COMMAND = re.compile(r"(?<![\w\\])[\\@](?!\{|\})[a-zA-Z_]+\b(?:\{[^}]*\})?")


@dataclass(frozen=True)
class Comment:
    """A cleaned comment."""

    text: str
    defines: tuple[str, str] | None = None
    """(name, title) of the group that it opens or describes."""
    group: str = ""
    """Name of the group that it belongs to."""
    opens: bool = False
    closes: bool = False


def clean(raw: str) -> Comment:
    """Strip the decoration of ``raw`` (the comment with its markers), resolve its commands.

    See-also lists are left out: they name forty neighbours and would be found for each of them.
    """
    lines = []
    for line in raw.strip().removeprefix("/**").removeprefix("/*!").removesuffix("*/").splitlines():
        stripped = re.sub(r"^\s*(?:\*(?!/)|//[/!]<?)[ ]?", "", line)
        lines.append(stripped.rstrip())
    text = _INTERNAL.sub("", "\n".join(lines))
    defines: tuple[str, str] | None = None
    group = ""
    for kind, name, title in _GROUP.findall(text):
        if kind == "ingroup":
            group = name
        else:
            defines = (name, title.strip())
    text = _GROUP.sub("", text)
    opens, closes = bool(re.search(r"[\\@]\{", text)), bool(re.search(r"[\\@]\}", text))
    text = re.sub(r"[\\@][{}]", "", text)
    text = re.sub(r"[\\@](?:code|verbatim)(?:\{[^}]*\})?", "\n```", text)
    text = re.sub(r"[\\@]end(?:code|verbatim)", "```\n", text)
    text = _LISTS.sub("", text)
    text = _REF.sub(lambda match: match[2] or match[1], text)
    text = _PARAMETER.sub(r"- \1: ", text)
    text = _LABEL.sub(lambda match: f"{_SECTIONS[match[1]]} " if _SECTIONS[match[1]] else "", text)
    text = _FORMATTED.sub(r"\1", text)
    text = _COMMAND.sub("", text)
    text = re.sub(r"(?<![\w:])::(?=\w)", "", text)
    # reStructuredText roles of the C++ libraries, and list marks that nothing follows.
    text = re.sub(r"\\? ?:[a-z]+(?::[a-z]+)?:`([^`<]+?)(?:\s*<[^`>]*>)?`", r" \1", text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    text = re.sub(r"^\s*-$\n?", "", text, flags=re.M)
    return Comment(re.sub(r"\n{3,}", "\n\n", text).strip(), defines, group, opens, closes)
