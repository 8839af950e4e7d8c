"""What every test gets: no network but loopback, no key, a cache of its own, and skips by capability."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def _has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip by capability, with the reason; pytest's closing line shows the count."""
    lacks = {
        "gpu": None if _has_gpu() else "no NVIDIA GPU",
        "nvcc": None if shutil.which("nvcc") else "no nvcc on the path",
        "slow": None if config.getoption("--slow") else "slow; run with --slow",
        "live": None if os.environ.get("STITCHCUDA_LIVE_TESTS") else "needs STITCHCUDA_LIVE_TESTS=1 and a key",
    }
    for item in items:
        for marker, reason in lacks.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder shared by the session's processes, no keys, no tracing to anywhere."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    patch = pytest.MonkeyPatch()
    # COLUMNS: pytest-xdist sets it, and tables would be cut to it.
    for name in ("OPENAI_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "COLUMNS"):
        patch.delenv(name, raising=False)
    patch.setenv("STITCHCUDA_CACHE_DIR", str(shared / "stitchcuda-cache"))
    patch.setenv("LANGSMITH_TRACING", "false")
    patch.setenv("LANGGRAPH_STRICT_MSGPACK", "true")
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Any connection that leaves the machine fails the test that made it: no test can call a real model by accident."""
    if request.node.get_closest_marker("live"):
        return
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = address[0] if isinstance(address, tuple) else address
            if host not in ("127.0.0.1", "::1", "localhost"):
                raise AssertionError(f"a test tried to reach {host}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)
