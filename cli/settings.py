"""One resolver of run settings: explicit flag > settings file > resumed run > environment > default.

Comes in: the layers. Goes out: a ``Context``, or one line that names the setting, where it came from and
what is wrong. ``model`` is short for the three roles; within one layer a role's own name beats it, and a
higher layer's ``model`` beats a lower layer's role. The word ``none`` unsets a setting. Values
of ``STITCHCUDA_*`` are never printed.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stitchcuda.core.errors import SettingsError

if TYPE_CHECKING:
    from stitchcuda.graph.context import Context

__all__ = ["environment_layer", "read_settings_file", "resolve_settings"]

PREFIX = "STITCHCUDA_"
ROLES = ("planner", "coder", "verifier")
NOT_SETTABLE = frozenset({"run_dir"})
"""Set by ``--out`` and ``--resume``: one folder belongs to one run."""


def resolve_settings(
    flags: Mapping[str, Any],
    file: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    resumed: Mapping[str, Any] | None = None,
) -> Context:
    """The settings of a run.

    Args:
        flags: explicit flags; ``None`` values are not allowed in here.
        file: a TOML file, flat, with the names of ``Context``'s fields.
        environ: ``STITCHCUDA_*`` variables; the process's environment over ``.env`` when not given.
        resumed: the settings that a resumed run was started with; they take the environment's place, because
            a run goes on under the settings that it began with.

    Raises:
        SettingsError: a file that cannot be read, an unknown name, or a value that does not fit.
    """
    from pydantic import ValidationError

    from stitchcuda.graph.context import Context

    known = set(Context.model_fields) - NOT_SETTABLE
    layers: list[tuple[str, Mapping[str, Any]]] = []
    if resumed is None:
        layers.append(("environment", environment_layer(known, environ)))
    else:
        layers.append(("resumed run", {name: value for name, value in resumed.items() if name in known}))
    if file is not None:
        layers.append((str(file), read_settings_file(file)))
    layers.append(("command line", flags))

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, layer in layers:
        for name, value in _expand_model(layer).items():
            if name not in known:
                raise SettingsError(f"{origin}: there is no setting {name!r}{_suggestion(name, known | {'model'})}")
            # TOML, a flag and a variable have no null of their own; no setting means the word itself.
            values[name], origins[name] = None if value == "none" else value, origin
    try:
        return Context(**values)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = str(problem["loc"][0]) if problem["loc"] else "settings"
        raise SettingsError(f"{origins.get(name, 'settings')}: {name}: {problem['msg']}") from None


def read_settings_file(path: Path) -> dict[str, Any]:
    """The layer of a TOML settings file.

    Raises:
        SettingsError: the file cannot be read, is no TOML, or has tables.
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} is not TOML: {error}") from error
    for name, value in values.items():
        if isinstance(value, dict):
            raise SettingsError(f"settings file {path}: [{name}] is a table; settings are NAME = VALUE lines")
    return {name.replace("-", "_"): value for name, value in values.items()}


def environment_layer(known: set[str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The ``STITCHCUDA_*`` variables that name a setting; host paths and secrets are read elsewhere."""
    if environ is None:
        from dotenv import dotenv_values

        from_file = {name: value for name, value in dotenv_values(".env").items() if value is not None}
        environ = {**from_file, **os.environ}
    names = {PREFIX + name.upper(): name for name in (*known, "model")}
    return {names[variable]: value for variable, value in environ.items() if variable in names and value != ""}


def _expand_model(layer: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in layer.items() if name != "model"}
    return {**dict.fromkeys(ROLES, layer["model"]), **rest} if "model" in layer else rest


def _suggestion(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else "; `stitchcuda solve --help` lists the common ones"
