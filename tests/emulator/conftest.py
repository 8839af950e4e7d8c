"""Two shared objects per session, because compiling is what these tests spend their time on."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from emulator_build import build_shared_object


@pytest.fixture(scope="session")
def lib(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    loaded = build_shared_object("basics.cu", "c++17", tmp_path_factory.mktemp("basics"))
    loaded.message.restype = ctypes.c_char_p
    loaded.error_text.restype = ctypes.c_char_p
    return loaded


@pytest.fixture(scope="session")
def constructs(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build_shared_object("constructs.cu", "c++20", tmp_path_factory.mktemp("constructs"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
