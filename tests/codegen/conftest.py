"""Traces and built candidates that several tests share."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from stitchcuda.codegen import Trace

Load = Callable[[str], types.ModuleType]


@pytest.fixture(scope="session")
def trace_of() -> Callable[[str], Trace]:
    """Trace a problem's source in this process; the trace goes through JSON as it does between processes."""
    import json

    from stitchcuda.codegen.tracing import trace_source

    return lambda source: Trace.model_validate(json.loads(json.dumps(trace_source(source))))


@pytest.fixture(scope="session")
def load_candidate(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Execute a candidate with its extension built for the ``cpu`` device."""
    from stitchcuda.tools.build import Builder, ExtensionSpec
    from stitchcuda.tools.build.loader import load_extension

    builder = Builder(tmp_path_factory.mktemp("extensions"), timeout_s=280)

    def load(source: str) -> types.ModuleType:
        def load_inline(**given: Any) -> Any:
            spec = ExtensionSpec(
                name=given["name"],
                cpp_sources=(given["cpp_sources"],),
                cuda_sources=(given["cuda_sources"],),
                functions=tuple(given["functions"]),
                extra_cuda_cflags=("-O0",),
            )
            build = builder.build(spec, "cpu")
            assert build.ok, build.diagnostics[:5]
            return load_extension(build.model_dump(mode="json"), spec)

        import torch.utils.cpp_extension as cpp_extension

        module = types.ModuleType("candidate")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cpp_extension, "load_inline", load_inline)
            exec(compile(source, "candidate.py", "exec"), module.__dict__)
        return module

    return load
