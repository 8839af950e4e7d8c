"""Which parts of the facade a candidate's text needs: parsing the standard library is most of a build's cost."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["needed_parts"]

# Names of the standard library that the headers every file gets anyway declare (<vector>, <optional>, <array>, <cmath>,
# <limits>, <cstdint>, <cstdio>, <cstring> and what they are made of). Any other name brings the whole library.
_CHEAP = re.compile(
    r"""
    vector | (make_)?optional | nullopt | array | (make_)?pair | move | forward | swap | exchange | initializer_list
    | declval | min | max | f?abs | sqrt | cbrt | hypot | exp2? | expm1 | log(2|10|1p)? | pow | a?(sin|cos|tan)h?
    | atan2
    | erfc? | floor | l?l?round | trunc | ceil | fmod | fma | fmax | fmin | is(nan|inf|finite) | nearbyint | rint
    | signbit | copysign | numeric_limits | (size|ptrdiff|nullptr|u?intptr|u?int(8|16|32|64))_t
    | is_(same|integral|floating_point|arithmetic|void|signed|unsigned|enum)(_v)?
    | (enable_if|conditional|decay|remove_(reference|const|cv)|make_(un)?signed|underlying_type|void)(_t)?
    | (true|false)_type | integral_constant | (make_)?index_sequence(_for)?
    | mem(cpy|set|cmp) | str(cmp|len) | f?printf | snprintf | exit | abort | getenv | exception | string | to_string
    """,
    re.VERBOSE,
)
_STD_NAME = re.compile(r"\bstd\s*::\s*(\w+)(\s*\(\s*\{)?")
_WHOLE = re.compile(r"using\s+namespace\s+std\b|c10::string_view")
_STRING = re.compile(r"\bstring\b|\bto_string\b|c10::str\b|\.str\(")
_HALF = re.compile(r"half|bfloat|bf16|fp16|reduced", re.IGNORECASE)
_BINDING = re.compile(r"PYBIND11|\bpy\s*::|pybind11")


def needed_parts(texts: Sequence[str]) -> tuple[str, ...]:
    """The ``STITCH_PART_*`` names for files with ``texts``: too many is slow, too few never is.

    A word of a comment counts like one of the code.
    """
    parts: set[str] = set()
    for text in texts:
        if _WHOLE.search(text) or any(
            # std::max({...}) is another function than std::max(a, b), in a larger header.
            not _CHEAP.fullmatch(name) or (braces and name in ("min", "max"))
            for name, braces in _STD_NAME.findall(text)
        ):
            parts.add("STD")
        for part, pattern in (("STRING", _STRING), ("HALF", _HALF), ("BINDING", _BINDING)):
            if pattern.search(text):
                parts.add(part)
    return tuple(sorted(parts))
