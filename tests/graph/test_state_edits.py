"""What a person writes into a checkpoint is plain data: it becomes records, or is refused in one line."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError

from stitchcuda.core.records import CheckReport, Evaluation, Feedback, Plan, Record, Status
from stitchcuda.graph.builder import build_graph
from stitchcuda.graph.checked import Checked
from stitchcuda.graph.state import Best, Decision, State
from stitchcuda.nodes.engines.protocols import Usage
from stitchcuda.nodes.evidence import Attempt, Citation, DeviceFacts

CANDIDATE = {"id": 1, "parent_id": None, "author": "chat", "path": "candidates/01.py", "sha256": "0" * 64}
EVALUATION = {"candidate_id": 1, "status": "passed", "device": "cpu"}


@pytest.fixture
def app() -> Any:
    return build_graph().compile(checkpointer=InMemorySaver())


CONFIG: Any = {"configurable": {"thread_id": "one"}}


async def edit(app: Any, values: dict[str, Any]) -> dict[str, Any]:
    await app.aupdate_state(CONFIG, values, as_node="load_problem")
    found: dict[str, Any] = (await app.aget_state(CONFIG)).values
    return found


@pytest.mark.parametrize(
    ("key", "data", "kind"),
    [
        ("plan", {"summary": "s", "subtasks": []}, Plan),
        ("decision", {"kind": "stop", "reason": "nothing_left"}, Decision),
        ("feedback", {"kind": "repair", "instruction": "Declare y."}, Feedback),
        ("evaluation", EVALUATION, Evaluation),
        ("best", {"candidate": CANDIDATE, "evaluation": EVALUATION}, Best),
        ("timing", {"ok": False, "status": "wrong_values", "trials": 2}, CheckReport),
        ("device", {"device": "cpu", "name": "x"}, DeviceFacts),
        ("usage", {"calls": 2}, Usage),
        ("verifier_usage", {"calls": 2}, Usage),
    ],
)
async def test_data_becomes_the_record(app: Any, key: str, data: dict[str, Any], kind: type[Record]) -> None:
    """Also as the first value that the channel ever gets, and again over one that it has."""
    for _ in range(2):
        values = await edit(app, {key: data})
        assert type(values[key]) is kind
    assert values["usage"] == Usage(calls=4 if key == "usage" else 0)


async def test_lists_of_records(app: Any) -> None:
    attempt = {"candidate_id": 1, "status": "passed"}
    await edit(app, {"attempts": [attempt]})
    citation = {"source": "a", "text": "b", "score": 1}
    values = await edit(app, {"attempts": [attempt | {"candidate_id": 2}], "citations": [citation]})
    assert values["attempts"] == [Attempt(candidate_id=1, status="passed"), Attempt(candidate_id=2, status="passed")]
    assert [type(one) for one in values["citations"]] == [Citation]


async def test_a_record_stays_the_object_that_it_is(app: Any) -> None:
    evaluation = Evaluation(candidate_id=1, status=Status.PASSED, device="cpu")
    values = await edit(app, {"evaluation": evaluation, "plan": None})
    assert values["evaluation"] == evaluation
    assert values["plan"] is None


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"plan": {"subtasks": 3}}, "'plan' cannot be set to this: subtasks: Input should be"),
        ({"plan": {"summary": "s", "subtasks": [], "sumary": 1}}, "'plan' cannot be set to this: sumary: Extra inputs"),
        ({"feedback": "do better"}, "'feedback' cannot be set to this: the value: Input should be"),
        ({"attempts": [{"candidate_id": "x"}]}, "'attempts' cannot be set to this: 0.candidate_id: Input should be"),
        ({"usage": {"calls": "many"}}, "'usage' cannot be set to this: calls: Input should be"),
    ],
)
async def test_what_is_no_record_is_refused_in_one_line(app: Any, values: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidUpdateError) as refused:
        await edit(app, values)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_no_record_of_the_state_is_left_unchecked(app: Any) -> None:
    """A new channel for a record must be one that takes data."""
    plain = {name for name, hint in get_type_hints(State).items() if "stitchcuda" not in repr(hint)}
    for name, channel in app.channels.items():
        if name in State.__annotations__ and name not in plain:
            assert isinstance(channel, Checked) or name in ("attempts", "usage"), name
