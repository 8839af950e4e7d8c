"""The planted bugs of ``kernels/bugs.cu``: their names, and the lines that a finding has to name."""

from __future__ import annotations

import re
from pathlib import Path

_TEXT = (Path(__file__).parent / "kernels" / "bugs.cu").read_text()
CASES = re.findall(r"^CASE\((\w+),", _TEXT, re.MULTILINE)


def marked_lines(case: str) -> set[int]:
    return {i for i, line in enumerate(_TEXT.splitlines(), 1) if f"// @{case}" in line}
