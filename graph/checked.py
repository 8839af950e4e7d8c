"""Channels of the state that hold our records, whoever writes them.

Nodes write records; a person who edits a checkpoint in Studio writes plain data. Both arrive here: data becomes the
record that it describes, and what describes none is refused in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from langgraph.channels import LastValue
from langgraph.errors import InvalidUpdateError
from pydantic import TypeAdapter, ValidationError

__all__ = ["Checked", "as_type", "checked_add"]

T = TypeVar("T")
TOLD_ERRORS = 3


@lru_cache(maxsize=64)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def as_type(kind: Any, value: Any, name: str) -> Any:
    """``value`` as ``kind``; a record stays the object that it is.

    Raises:
        InvalidUpdateError: it does not fit; LangGraph's server answers a request with this line.
    """
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{'.'.join(map(str, one['loc'])) or 'the value'}: {one['msg']}" for one in found[:TOLD_ERRORS]]
        more = f"; and {len(found) - TOLD_ERRORS} more" if len(found) > TOLD_ERRORS else ""
        raise InvalidUpdateError(f"{name!r} cannot be set to this: {'; '.join(told)}{more}") from error


class Checked(LastValue[Any]):
    """The last value written, always of the annotated type: ``plan: Annotated[Plan | None, Checked]``."""

    __slots__ = ()

    def update(self, values: Sequence[Any]) -> bool:
        return super().update([as_type(self.typ, value, self.key) for value in values])


def checked_add(kind: Any, name: str) -> Callable[[T, T], T]:
    """A reducer that adds, after the added value was made a ``kind``."""

    def add(old: T, new: T) -> T:
        return old + as_type(kind, new, name)  # type: ignore[no-any-return]

    return add
