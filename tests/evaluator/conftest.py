"""One evaluator per session and program, so that tests share the fork server and the built extension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stitchcuda.core.records import Evaluation
from stitchcuda.tools import Evaluator, EvaluatorSettings

HERE = Path(__file__).parent
CALL_TIMEOUT_S = 8.0


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluator-cache")


@pytest.fixture(scope="session")
def make_evaluator(cache_dir: Path) -> Iterator[Callable[..., Evaluator]]:
    """``make_evaluator(reference, **settings)``; closed at the end of the session."""
    made: list[Evaluator] = []

    def make(reference: str, **settings: Any) -> Evaluator:
        chosen = {"device": "cpu", "call_timeout_s": CALL_TIMEOUT_S, "cross_compile": None, "trials": 4, **settings}
        evaluator = Evaluator(reference, EvaluatorSettings(cache_dir=cache_dir, **chosen), sizes="reduced")
        made.append(evaluator)
        return evaluator

    yield make
    for evaluator in made:
        evaluator.close()


@pytest.fixture(scope="session")
def scale_evaluator(make_evaluator: Callable[..., Evaluator]) -> Evaluator:
    """For ``programs.SCALE``: a scaled, shifted ReLU with a weight and a bias."""
    from evaluator_programs import SCALE

    return make_evaluator(SCALE)


@pytest.fixture(scope="session")
def any_policy(make_evaluator: Callable[..., Evaluator]) -> Evaluator:
    """The same reference under the policy ``any``: pure PyTorch candidates may pass."""
    from evaluator_programs import SCALE

    return make_evaluator(SCALE, policy="any")


@pytest.fixture
def judge(any_policy: Evaluator) -> Callable[[str], Evaluation]:
    return any_policy.evaluate
