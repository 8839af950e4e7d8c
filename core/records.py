"""The vocabulary as types: statuses, evaluations, plans, feedback.

Frozen pydantic records that cross rooms, lie in the graph's state and are written to the run folder.
Large things (sources, logs, outputs) are not in here: a record holds a path, a digest, an excerpt.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "Author",
    "BaselineTiming",
    "BuildReport",
    "Candidate",
    "CandidateSource",
    "CheckReport",
    "Diagnostic",
    "Evaluation",
    "ExtensionBuild",
    "Feedback",
    "FeedbackKind",
    "Finding",
    "OutputCheck",
    "Plan",
    "Policy",
    "ProfileReport",
    "ProfileRow",
    "Record",
    "ScreenReport",
    "Status",
    "SubTask",
    "TimingReport",
    "TimingStats",
]


class Record(BaseModel):
    """A frozen value; unknown fields are an error, so that a renamed field cannot go unnoticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Status(StrEnum):
    """What was established about one candidate."""

    PASSED = "passed"
    BUILD_FAILED = "build_failed"
    RUNTIME_ERROR = "runtime_error"
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUES = "wrong_values"
    TIMEOUT = "timeout"
    CHEATING = "cheating"
    MACHINE_ERROR = "machine_error"
    """The machine, not the candidate, is at fault; never counted against the candidate."""


Policy = Literal["own-kernels", "libraries", "any"]
FeedbackKind = Literal["repair", "optimise", "next_subtask", "replan", "accept"]
Author = Literal["embedded", "chat"]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]


# --- candidates -------------------------------------------------------------------------------------------------


class CandidateSource(Record):
    """A Coder's answer: one complete Python file that defines ``ModelNew``."""

    source: str
    summary: str = ""
    """One or two sentences: what was changed, and what is expected of it."""
    covers: tuple[str, ...] = ()
    """Ids of the sub-tasks that this source implements (earlier ones included)."""
    choices: dict[str, str] = {}
    """The embedded engine's schedule, group id to choice; empty for a chat model."""
    own_ops: tuple[str, ...] = ()
    """Ops that the seed, from which this source descends, does in own kernels; empty without a seed."""


class Candidate(Record):
    """A candidate on file. The source lies at ``path``, relative to the run folder."""

    id: int
    parent_id: int | None
    author: Author
    path: str
    sha256: str
    summary: str = ""
    covers: tuple[str, ...] = ()
    choices: dict[str, str] = {}
    own_ops: tuple[str, ...] = ()


# --- evaluation -------------------------------------------------------------------------------------------------


class Diagnostic(Record):
    """One compiler message, in the candidate's own lines where they are known."""

    severity: Literal["error", "warning"]
    message: str
    file: str = ""
    line: int | None = None
    code: str = ""
    """The compiler's own code of the message, for example ``20013`` or ``-Wunused``."""


class ExtensionBuild(Record):
    """One ``load_inline``/``load`` call of a candidate, built."""

    name: str
    ok: bool
    target: str
    """``cpu`` or ``sm_NN``."""
    path: str = ""
    """The shared object; empty when only compiled (no GPU) or failed."""
    headers: Literal["facade", "torch"] = "facade"
    """Whether the light facade of torch's headers was enough."""
    cached: bool = False
    seconds: float = 0.0
    diagnostics: tuple[Diagnostic, ...] = ()
    registers: dict[str, int] = {}
    """Registers per thread of each kernel, by its mangled name (``ptxas -v``; empty on ``cpu``)."""


class BuildReport(Record):
    """Everything that importing the candidate asked to be built."""

    ok: bool
    extensions: tuple[ExtensionBuild, ...] = ()
    cross_compiled: tuple[ExtensionBuild, ...] = ()
    """On ``cpu`` with nvcc present: the same sources compiled for a GPU target, not run."""
    error: str = ""
    """Why the candidate could not be imported, when that is not a compiler's message."""
    seconds: float = 0.0


class Finding(Record):
    """What a static rule noticed. A finding is a lead, not a verdict; ``block`` ones settle the matter."""

    rule: str
    severity: Literal["info", "warn", "block"]
    message: str
    line: int | None = None


class ScreenReport(Record):
    findings: tuple[Finding, ...] = ()

    @property
    def blocked(self) -> bool:
        return any(finding.severity == "block" for finding in self.findings)


class OutputCheck(Record):
    """One output tensor of one trial against the golden one."""

    trial: str
    """Name of the input distribution, for example ``as_given`` or ``scaled_3``."""
    output: str
    """Path in the nested result, for example ``out`` or ``out[1]``."""
    ok: bool
    status: Status = Status.PASSED
    message: str = ""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    mismatched_fraction: float | None = None


class CheckReport(Record):
    ok: bool
    status: Status
    reasons: tuple[str, ...] = ()
    outputs: tuple[OutputCheck, ...] = ()
    """The failed ones first; passed ones as a summary of the worst per trial."""
    trials: int = 0
    message: str = ""
    own_kernel_launches: int | None = None
    """Launches of kernels from the candidate's own extensions in one call; ``None`` if not counted."""
    replaced_share: float | None = None
    """Share of the reference's work (elements read and written) that PyTorch no longer does; ``None`` if not logged."""
    library_ops: tuple[str, ...] = ()
    """Operators of cuBLAS and cuDNN that the candidate used."""
    unscorable: tuple[str, ...] = ()
    """Control outputs (``zeros``, ``first_output``, …) that would pass on this problem too: it proves nothing there."""
    seconds: float = 0.0


class TimingStats(Record):
    """Milliseconds per call."""

    median_ms: float
    p25_ms: float
    p75_ms: float
    calls: int


class BaselineTiming(Record):
    """A named way to run the reference, timed in turns with the candidate."""

    name: str
    """``eager``, ``eager_tf32``, ``compile_default``, ``compile_reduce_overhead``."""
    stats: TimingStats
    speedup: float
    speedup_low: float
    speedup_high: float
    """95 % bootstrap interval of the ratio of medians."""


class TimingReport(Record):
    candidate: TimingStats
    baselines: tuple[BaselineTiming, ...]
    """The first is the one that ``Evaluation.speedup`` names."""
    rounds: int
    processes: int = 1
    """Candidate processes that the rounds are from."""
    stopped_by: Literal["interval", "budget", "rounds"] = "budget"
    """``interval``: the 95 % interval of the ratio to eager came within 2 %."""
    launch_bound: bool | None = None
    wall_ms: float | None = None
    """Per call, by the parent's clock around batches of calls back to back."""
    floor_ms: float | None = None
    """What moving the problem's compulsory bytes takes at the least on this device; ``None``: not known."""
    peak_extra_bytes: dict[str, int] = {}
    """Device memory that a call of each side takes over what the side holds between calls, by the driver."""
    clocks: dict[str, str] = {}
    """Clocks, temperature, power and throttling, ``before_…`` and ``after_…``."""
    notes: tuple[str, ...] = ()
    """Baselines that could not be had, and why."""
    seconds: float = 0.0


class ProfileRow(Record):
    name: str
    calls: int
    total_ms: float
    share: Fraction


class ProfileReport(Record):
    """Where the time of one call goes."""

    source: Literal["torch.profiler", "nsys", "ncu"]
    total_ms: float
    """Wall-clock time of the measured call."""
    device_busy: Fraction | None = None
    """Share of the call in which the GPU ran a kernel; ``None`` on ``cpu``."""
    launches: int | None = None
    rows: tuple[ProfileRow, ...] = ()


class Evaluation(Record):
    """Everything that was established about one candidate on one device."""

    candidate_id: int
    status: Status
    reasons: tuple[str, ...] = ()
    message: str = ""
    """The first cause in one line."""
    device: str
    policy: Policy = "libraries"
    sizes: Literal["full", "reduced"] = "full"
    build: BuildReport | None = None
    screen: ScreenReport | None = None
    check: CheckReport | None = None
    timing: TimingReport | None = None
    profile: ProfileReport | None = None
    seconds: float = 0.0
    machine: dict[str, str] = {}

    @model_validator(mode="after")
    def _a_speedup_needs_a_pass(self) -> Self:
        if self.timing is not None and self.status is not Status.PASSED:
            raise ValueError(f"a timing exists only with 'passed', not with {self.status.value!r}")
        if self.status is Status.PASSED and self.reasons:
            raise ValueError("a passed evaluation has no reasons")
        return self

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    @property
    def speedup(self) -> float | None:
        """Ratio to the first baseline (eager); ``None`` unless timed on a GPU."""
        return self.timing.baselines[0].speedup if self.timing and self.timing.baselines else None


# --- plan and feedback ------------------------------------------------------------------------------------------


class SubTask(Record):
    """One item of the Planner's to-do list."""

    id: str
    title: str
    ops: tuple[str, ...]
    """Names of the ops in the op graph that it covers."""
    contract: str
    """Shapes, dtypes and layouts at its border."""
    technique: str
    """What is to be done, for example ``fuse into one vectorised kernel``."""
    done_when: str
    memory_limit: str = ""
    expected_gain: str = ""
    citations: tuple[str, ...] = ()


class Plan(Record):
    revision: int = 0
    summary: str = ""
    subtasks: tuple[SubTask, ...] = ()
    left_to_pytorch: tuple[str, ...] = ()
    """Ops that no sub-task covers, each with the reason."""
    rationale: str = ""


class Feedback(Record):
    """The Verifier's structured answer to the Coder."""

    kind: FeedbackKind
    evidence: tuple[str, ...] = ()
    instruction: str = ""
    expectation: str = ""
    """What the next measurement should show."""
    citations: tuple[str, ...] = ()
