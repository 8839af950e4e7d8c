"""What the run's settings say of chat models: written as text or as values, and what arrives at the endpoint."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stitchcuda.core.errors import SettingsError
from stitchcuda.graph.context import Context
from stitchcuda.nodes.engines import open_engines
from stitchcuda.nodes.engines.chat import FakeOpenAIServer
from stitchcuda.nodes.engines.chat.opening import ChatOpener

ROLES = {"planner": "openai:fake", "coder": "openai:fake", "verifier": "openai:fake"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("prices", "gpt-x=1.25/10, org/model=0/0", {"gpt-x": (1.25, 10.0), "org/model": (0.0, 0.0)}),
        ("temperatures", "planner=0.2,coder=0.8", {"planner": 0.2, "coder": 0.8}),
        ("endpoint", "token_parameter=max_tokens,stream=false", {"token_parameter": "max_tokens", "stream": "false"}),
        ("prices", "", {}),
    ],
)
def test_pairs_may_be_written_as_text(name: str, text: str, value: dict[str, Any]) -> None:
    context = Context.model_validate({name: text})
    assert getattr(context, name) == value
    assert Context.model_validate(context.model_dump(mode="json")) == context  # as run.json keeps it


@pytest.mark.parametrize(
    "wrong",
    [
        {"prices": "gpt-x"},
        {"prices": "gpt-x=1"},
        {"prices": "gpt-x=-1/2"},
        {"temperatures": "cook=0.2"},
        {"temperatures": "coder=9"},
        {"samples": 0},
        {"concurrency": 0},
        {"max_cost_usd": 0},
        {"context_tokens": 10},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        Context.model_validate(wrong)


def test_every_setting_says_what_it_does() -> None:
    for name, field in Context.model_fields.items():
        assert field.description, name


async def test_each_role_has_its_own_temperature() -> None:
    with FakeOpenAIServer(["x"], repeat_last=True) as server:
        context = Context(
            **ROLES,
            base_url=server.url,
            temperature=0.5,
            temperatures={"coder": 0.9},
            reasoning_effort="low",
            chat_seed=4,
        )
        opener = ChatOpener(context)
        limits = {role: opener.options(role).limits for role in context.engines}
    assert {role: one.temperature for role, one in limits.items()} == {"planner": 0.5, "coder": 0.9, "verifier": 0.5}
    assert {(one.reasoning_effort, one.seed) for one in limits.values()} == {("low", 4)}


def test_roles_of_one_model_share_it_and_the_price_is_found_by_name() -> None:
    context = Context(**ROLES, base_url="http://127.0.0.1:9/v1", prices={"fake": (1.0, 2.0)}, max_cost_usd=1.0)
    engines = open_engines(context)
    assert engines.planner.model is engines.coder.model  # type: ignore[attr-defined]
    assert engines.coder.options.limits.cost_usd(1_000_000, 500_000) == 2.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_cost_usd": 1.0}, "prices has no entry for 'fake'"),
        ({"endpoint": {"colour": "red"}}, "endpoint: colour"),
        ({"planner": "gpt-x"}, "no engine 'gpt-x'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_before_anything_is_asked(settings: dict[str, Any], said: str) -> None:
    context = Context(**{**ROLES, "base_url": "http://127.0.0.1:9/v1", **settings})
    with pytest.raises(SettingsError, match=said):
        open_engines(context)
