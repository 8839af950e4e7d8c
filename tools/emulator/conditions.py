"""Which branches of ``#if`` a build for the ``cpu`` device takes, as far as the rewriter can know it.

Known are the words about the compiler and the architecture; a condition with any other word keeps all its branches.
"""

from __future__ import annotations

import re

__all__ = ["Conditionals"]

_KNOWN = {"__CUDA_ARCH__": 900, "__CUDACC__": 1, "__NVCC__": 1, "CUDART_VERSION": 13000, "CUDA_VERSION": 13000}
_ABSENT = {"USE_ROCM", "__HIP_PLATFORM_AMD__", "__HIPCC__", "__HIP_DEVICE_COMPILE__", "__clang__", "_MSC_VER"}
_DIRECTIVE = re.compile(r"#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b((?:\\\r?\n|[^\n])*)")


class Conditionals:
    """Follows the directives of a text; ``skipping`` says whether the text behind the last one is left out."""

    def __init__(self) -> None:
        self._open: list[tuple[bool, bool]] = []
        """For each open conditional: whether this branch is left out, and whether an earlier one was surely taken."""

    @property
    def skipping(self) -> bool:
        return any(skipped for skipped, _ in self._open)

    def see(self, text: str, at: int) -> bool:
        """The ``#`` at ``at`` begins a directive; says whether that line itself is left out."""
        match = _DIRECTIVE.match(text, at)
        if match is None:
            return self.skipping
        around = self._open if match[1].startswith("if") else self._open[:-1]
        hidden = any(skipped for skipped, _ in around)
        self._follow(match)
        return hidden

    def _follow(self, match: re.Match[str]) -> None:
        word, rest = match[1], match[2]
        if word in ("if", "ifdef", "ifndef"):
            value = _evaluate(rest) if word == "if" else _defined(rest.strip().split("//")[0].strip())
            if word == "ifndef" and value is not None:
                value = not value
            self._open.append((value is False, value is True))
        elif self._open and word == "endif":
            self._open.pop()
        elif self._open:
            _, taken = self._open[-1]
            value = True if word == "else" else _evaluate(rest)
            self._open[-1] = (taken or value is False, taken or (word == "elif" and value is True))


def _defined(name: str) -> bool | None:
    return True if name in _KNOWN else False if name in _ABSENT else None


def _evaluate(text: str) -> bool | None:
    """The truth of an ``#if`` expression of known words, numbers and operators; ``None`` when it has others."""
    text = re.sub(r"/\*.*?\*/|//.*|\\\r?\n", " ", text)
    unknown = False

    def presence(match: re.Match[str]) -> str:
        nonlocal unknown
        value = _defined(match[1])
        unknown |= value is None
        return str(int(value or False))

    text = re.sub(r"\bdefined\s*\(?\s*(\w+)\s*\)?", presence, text)
    text = re.sub(
        r"[A-Za-z_]\w*", lambda match: str(_KNOWN.get(match[0], 0 if match[0] in _ABSENT else match[0])), text
    )
    if unknown or re.fullmatch(r"[\d\s()<>=!&|+\-*/%]+", text) is None:
        return None
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    try:
        return bool(eval(re.sub(r"!(?!=)", " not ", text).strip(), {"__builtins__": {}}))  # digits and operators only
    except (SyntaxError, ZeroDivisionError, TypeError):
        return None
