"""Fusion groups: which ops become one kernel.

Comes in: a trace. Goes out: groups in program order, each a convex set of ops (no path leaves it and comes back),
with what it reads and writes; which op is in none is told by ``leftover``. Row reductions take their
elementwise neighbours first; what is left of the elementwise ops forms chains.
"""

from __future__ import annotations

from typing import Literal

from stitchcuda.codegen.ops import is_elementwise, operands, rule_of
from stitchcuda.codegen.program import Program, inputs_of, prepare
from stitchcuda.codegen.rows import Reduction, row_operand_fits, row_reduction
from stitchcuda.codegen.trace import Node, Ref, Trace
from stitchcuda.core.records import Record

__all__ = ["Group", "find_groups", "groups_of"]

MAX_OPERANDS = 12
"""Tensors that one kernel reads and writes; more pointers than this cost registers without saving much traffic."""

FREE = frozenset({"expand", "expand_as"})


class Group(Record):
    """Ops that one kernel computes."""

    id: str
    kind: Literal["elementwise", "row"]
    ops: tuple[str, ...]
    """Node names in program order."""
    op_kinds: tuple[str, ...]
    """The same as op names, for example ``mul``, ``leaky_relu``."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_shapes: tuple[str, ...]
    output_shapes: tuple[str, ...]
    domain: tuple[int, ...]
    """Shape of the iteration space in this trace."""
    row_dims: int = 0
    """How many trailing dimensions make a row."""
    bytes_before: int
    """Compulsory traffic of the ops one by one."""
    bytes_after: int
    """Compulsory traffic of the one kernel."""

    @property
    def saved_bytes(self) -> int:
        return self.bytes_before - self.bytes_after

    @property
    def title(self) -> str:
        """For example ``mul + leaky_relu``."""
        shown = list(self.op_kinds[:5])
        if len(self.op_kinds) > len(shown):
            shown.append(f"{len(self.op_kinds) - len(shown)} more")
        return " + ".join(shown)


def find_groups(trace: Trace) -> tuple[Group, ...]:
    """All fusion groups of a trace, in program order."""
    return groups_of(prepare(trace))


def groups_of(program: Program) -> tuple[Group, ...]:
    """All fusion groups of a prepared program, in program order."""
    return _Finder(program).find()


class _Finder:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = {node.name: node for node in program.nodes}
        self.order = {node.name: index for index, node in enumerate(program.nodes)}
        self.specs = program.specs()
        self.users = program.users()
        self.results = set(program.results())
        self.elementwise = {
            node.name: operands(node, rule)
            for node in program.nodes
            if (rule := rule_of(node)) is not None
            and node.name not in program.effects
            and not node.multiple
            and not is_elementwise(node, self.specs)
        }
        self.group_of: dict[str, int] = {}
        self.members: list[set[str]] = []
        self.rows: dict[int, Reduction] = {}
        self._reach()

    def find(self) -> tuple[Group, ...]:
        for node in self.program.nodes:
            if node.name in self.group_of or node.name in self.program.effects:
                continue
            reduction = row_reduction(node, self.specs)
            if isinstance(reduction, Reduction):
                self._grow_row(node, reduction)
        for node in self.program.nodes:
            if node.name in self.elementwise and node.name not in self.group_of:
                self._grow_chain(node)
        kept = [index for index, members in enumerate(self.members) if self._worth(index, members)]
        kept.sort(key=lambda index: min(self.order[name] for name in self.members[index]))
        return tuple(self._record(f"g{number}", index) for number, index in enumerate(kept, 1))

    # --- dependencies ---------------------------------------------------------------------------------------

    def _reach(self) -> None:
        """Ancestors and descendants of every node as bit sets; ops with effects depend on each other in order."""
        count = len(self.program.nodes)
        self.before = [0] * count
        self.after = [0] * count
        feeds: list[list[int]] = []
        previous_effect: int | None = None
        for index, node in enumerate(self.program.nodes):
            sources = [self.order[name] for name in inputs_of(node)]
            if node.name in self.program.effects:
                if previous_effect is not None:
                    sources.append(previous_effect)
                previous_effect = index
            feeds.append(sources)
            for source in sources:
                self.before[index] |= self.before[source] | 1 << source
        for index in range(count - 1, -1, -1):
            for source in feeds[index]:
                self.after[source] |= self.after[index] | 1 << index

    def _convex(self, members: set[str]) -> bool:
        """No path leaves the set and comes back, also when every other group is seen as one op."""
        inside = before = after = 0
        for name in members:
            index = self.order[name]
            inside |= 1 << index
            before |= self.before[index]
            after |= self.after[index]
        before, after = before & ~inside, after & ~inside
        # Fusing makes all members of a group wait for each other: close both sides over the other groups.
        changed = True
        while changed:
            if before & after:
                return False
            changed = False
            for other in self.members:
                if other & members:
                    continue
                mask = above = below = 0
                for name in other:
                    index = self.order[name]
                    mask |= 1 << index
                    above |= self.before[index]
                    below |= self.after[index]
                if mask & before and (mask | above) & ~inside & ~before:
                    before |= (mask | above) & ~inside
                    changed = True
                if mask & after and (mask | below) & ~inside & ~after:
                    after |= (mask | below) & ~inside
                    changed = True
                if (mask & before and above & inside) or (mask & after and below & inside):
                    return False
        return not before & after

    def _operands_fit(self, members: set[str]) -> bool:
        return len(self._inputs(members)) + len(self._outputs(members)) <= MAX_OPERANDS

    def _inputs(self, members: set[str]) -> list[str]:
        names: dict[str, None] = {}
        for name in sorted(members, key=self.order.__getitem__):
            for source in self._reads(name):
                if source not in members:
                    names[source] = None
        return list(names)

    def _reads(self, name: str) -> list[str]:
        """The tensors that a kernel for ``name`` really loads."""
        if name in self.elementwise:
            return [item.value.node for item in self.elementwise[name] if isinstance(item.value, Ref)]
        reduction = row_reduction(self.nodes[name], self.specs)
        assert isinstance(reduction, Reduction)
        return [item for item in (reduction.source, reduction.weight, reduction.bias) if item]

    def _outputs(self, members: set[str]) -> list[str]:
        return [
            name
            for name in sorted(members, key=self.order.__getitem__)
            if name in self.results or any(user not in members for user in self.users[name])
        ]

    # --- rows -----------------------------------------------------------------------------------------------

    def _grow_row(self, node: Node, reduction: Reduction) -> None:
        domain = self.specs[reduction.source].shape
        dims = reduction.dims
        members = {node.name}
        if not self._row_member_fits(node.name, members, domain, dims):
            return
        grown = True
        while grown:
            grown = False
            for name in self._neighbours(members):
                trial = members | {name}
                if (
                    self._row_member_fits(name, trial, domain, dims)
                    and all(self._row_member_fits(other, trial, domain, dims) for other in members)
                    and self._operands_fit(trial)
                    and self._convex(trial)
                ):
                    members = trial
                    grown = True
        outer = domain[: len(domain) - dims]
        shapes = [
            self.specs[source].shape
            for source in self._inputs(members)
            if any(source in self._reads(name) and self._is_full(name, outer) for name in members)
        ]
        # The kernel takes the domain from its inputs.
        self._keep(members if _broadcast(shapes) == domain else {node.name}, reduction)

    def _is_full(self, name: str, outer: tuple[int, ...]) -> bool:
        return name not in self.elementwise or self.specs[name].shape != outer

    def _neighbours(self, members: set[str]) -> list[str]:
        names: dict[str, None] = {}
        for name in sorted(members, key=self.order.__getitem__):
            for other in [*self._reads(name), *self.users[name]]:
                if other not in members and other not in self.group_of and other not in self.program.effects:
                    names[other] = None
        return [name for name in names if self.nodes[name].kind == "op"]

    def _row_member_fits(self, name: str, members: set[str], domain: tuple[int, ...], dims: int) -> bool:
        outer = domain[: len(domain) - dims]
        kept = outer + (1,) * dims
        node = self.nodes[name]
        if name not in self.elementwise:
            reduction = row_reduction(node, self.specs)
            if not isinstance(reduction, Reduction) or reduction.dims != dims:
                return False
            if self.specs[reduction.source].shape != domain:
                return False
            affine = [item for item in (reduction.weight, reduction.bias) if item]
            if any(item in members for item in affine):
                return False
            return all(row_operand_fits(self.specs[item].shape, domain, dims) for item in affine)
        shape = self.specs[name].shape
        if shape not in (domain, kept, outer):
            return False
        reads = self._reads(name)
        if shape == outer and len(outer) != len(domain):
            # One value per row without the reduced dimensions: meets only its like and outer operands.
            for source in reads:
                if source in members and self.specs[source].shape != outer:
                    return False
                if len(self.specs[source].shape) > len(outer):
                    return False
                # Squeezed and full operands line up differently: one tensor cannot be both.
                if source not in members and self.specs[source].numel > 1:
                    for user in self.users[source]:
                        if user in members and self.specs[user].shape != outer:
                            return False
            return True
        for source in reads:
            if source in members and self.specs[source].shape not in (domain, kept):
                return False
            if not row_operand_fits(self.specs[source].shape, domain, dims):
                return False
        return bool(reads)

    # --- elementwise ----------------------------------------------------------------------------------------

    def _grow_chain(self, node: Node) -> None:
        shape = self.specs[node.name].shape
        members = {node.name}
        if not self._operands_fit(members):
            return
        grown = True
        while grown:
            grown = False
            for name in self._neighbours(members):
                if name not in self.elementwise:
                    continue
                own = self.specs[name].shape
                # A smaller value may be computed again for each element, if nobody else needs it.
                small = own != shape and name not in self.results and set(self.users[name]) <= members
                trial = members | {name}
                if (own == shape or small) and self._operands_fit(trial) and self._convex(trial):
                    members = trial
                    grown = True
        self._keep(members, None)

    def _keep(self, members: set[str], reduction: Reduction | None) -> None:
        index = len(self.members)
        self.members.append(members)
        for name in members:
            self.group_of[name] = index
        if reduction is not None:
            self.rows[index] = reduction

    def _worth(self, index: int, members: set[str]) -> bool:
        if index in self.rows:
            return True
        outputs = self._outputs(members)
        domain = self.specs[outputs[-1]].shape if outputs else ()
        if not outputs or self.specs[outputs[-1]].numel <= 1:
            return False
        if any(self.specs[name].shape != domain for name in outputs):
            return False
        if all(self.nodes[name].op in FREE for name in members):
            return False
        # The kernel takes the domain from its inputs.
        return _broadcast([self.specs[name].shape for name in self._inputs(members)]) == domain

    # --- records --------------------------------------------------------------------------------------------

    def _record(self, group_id: str, index: int) -> Group:
        members = self.members[index]
        ops = sorted(members, key=self.order.__getitem__)
        inputs, outputs = self._inputs(members), self._outputs(members)
        row = self.rows.get(index)
        before = 0
        for name in ops:
            if self.nodes[name].op in FREE:
                continue
            before += self.specs[name].size_bytes
            before += sum(self.specs[item].size_bytes for item in dict.fromkeys(self._reads(name)))
        return Group(
            id=group_id,
            kind="row" if row is not None else "elementwise",
            ops=tuple(ops),
            op_kinds=tuple(self.nodes[name].op.rstrip("_") for name in ops),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            input_shapes=tuple(str(self.specs[name]) for name in inputs),
            output_shapes=tuple(str(self.specs[name]) for name in outputs),
            domain=self.specs[row.source].shape if row is not None else self.specs[outputs[-1]].shape,
            row_dims=row.dims if row is not None else 0,
            bytes_before=before,
            bytes_after=sum(self.specs[name].size_bytes for name in [*inputs, *outputs]),
        )


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for position, size in enumerate((1,) * (rank - len(shape)) + shape):
            if size != 1:
                result[position] = size
    return tuple(result)
