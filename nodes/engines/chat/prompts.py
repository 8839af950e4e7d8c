"""Prompts as files: ``nodes/prompts/*.md``, rendered with exactly the variables that they name.

A variable that a file uses and nobody gives is an error, and so is one that is given and not used: a renamed
field must not quietly vanish from what a model is told. ``prompt_digests`` versions what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, UndefinedError, meta

from stitchcuda.core.files import sha256_text

__all__ = ["fenced", "prompt_digest", "prompt_digests", "prompt_folder", "render"]


def prompt_folder() -> Path:
    """Where the prompt files lie."""
    return Path(__file__).parents[2] / "prompts"


def fenced(text: str, tag: str = "") -> str:
    """``text`` in a fence that is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{tag}\n{text.rstrip()}\n{fence}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(prompt_folder()),
        undefined=StrictUndefined,
        autoescape=False,  # prompts are Markdown, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fenced"] = fenced
    return environment


@lru_cache(maxsize=64)
def _template(name: str) -> tuple[Template, frozenset[str]]:
    source = (prompt_folder() / f"{name}.md").read_text(encoding="utf-8")
    environment = _environment()
    return environment.from_string(source), frozenset(meta.find_undeclared_variables(environment.parse(source)))


def render(name: str, /, **variables: object) -> str:
    """The prompt file ``name`` (without ``.md``) filled in.

    Raises:
        UndefinedError: the file names a variable, or an attribute of one, that is not there.
        TypeError: a variable was given that the file does not use.
    """
    template, declared = _template(name)
    if missing := declared - variables.keys():
        raise UndefinedError(f"prompt {name}.md: not given: {', '.join(sorted(missing))}")
    if unknown := variables.keys() - declared:
        raise TypeError(f"prompt {name}.md: not used: {', '.join(sorted(unknown))}")
    return _tidy(template.render(**variables))


def _tidy(text: str) -> str:
    """``text`` without the runs of blank lines that left-out parts leave behind.

    Inside fences nothing is touched: compilers count the lines of what stands there.
    """
    kept: list[str] = []
    fence = ""
    for line in text.strip().split("\n"):
        if fence:
            fence = "" if line == fence else fence
        elif not line.strip() and kept and not kept[-1].strip():
            continue
        elif opening := re.match(r"`{3,}", line):
            fence = opening.group()
        kept.append(line)
    return "\n".join(kept) + "\n"


def prompt_digests() -> dict[str, str]:
    """Hex SHA-256 of each prompt file, by name."""
    files = sorted(prompt_folder().glob("*.md"))
    return {path.stem: sha256_text(path.read_text(encoding="utf-8")) for path in files}


def prompt_digest(names: Iterable[str] | None = None) -> str:
    """One hex SHA-256 over the prompt files ``names`` (all when not given): the version of what is asked."""
    digests = prompt_digests()
    chosen = sorted(digests if names is None else names)
    return sha256_text("\n".join(f"{name} {digests[name]}" for name in chosen))
