"""The straight-line ``forward`` of a candidate.

Comes in: a program, the groups that have kernels, optionally the same program at a second size. Goes out: Python
lines. Values that end early give their variable to their successor, so that memory is freed as in hand-written code.
Numbers that differ between the two sizes become expressions of tensor shapes.
"""

from __future__ import annotations

import heapq
import keyword

from stitchcuda.codegen.emit_body import Kernel, Scalar, identifier
from stitchcuda.codegen.emit_torch import attribute_path, call
from stitchcuda.codegen.groups import Group
from stitchcuda.codegen.program import Program, inputs_of, is_in_place
from stitchcuda.codegen.sizes import Pair, find_expression
from stitchcuda.codegen.trace import Arg, Named, Node, OutputTree, Ref
from stitchcuda.core.errors import StitchError

__all__ = ["ForwardWriter", "SizeConflict"]

RESERVED = frozenset({"self", "torch", "nn", "F", "kernels", "math", "load_inline", "len", "float", "int"})


class SizeConflict(StitchError):
    """A number differs between the two sizes and follows no tensor's shape."""


class ForwardWriter:
    """Writes one ``forward``; use once."""

    def __init__(self, program: Program, reduced: Program | None) -> None:
        self.program = program
        self.nodes = {node.name: node for node in program.nodes}
        self.specs = program.specs()
        self.reduced = {node.name: node for node in reduced.nodes} if reduced is not None else None
        self.reduced_specs = reduced.specs() if reduced is not None else {}
        self.reduced_fixed = reduced.fixed if reduced is not None else {}
        self.reduced_numbers = reduced.numbers if reduced is not None else {}
        self.text: dict[str, str] = {}
        """Python text by which a live value is reached."""
        self.pending: dict[str, tuple[Arg, Arg]] = {}
        self.lines: list[str] = []
        self.taken = set(RESERVED) | {name.split("[")[0].split(".")[0] for name in program.arguments}

    # --- scalars of kernels -----------------------------------------------------------------------------------

    def scalar(self, node: Node, parameter: str, value: Arg) -> str | None:
        """A kernel's constant: ``None`` when it is the same at both sizes, else a key that is resolved at the call."""
        if self.reduced is None:
            return None
        other = self._same_place(node, self.reduced[node.name], value, parameter)
        if other == value:
            return None
        key = f"{node.name}:{parameter}"
        self.pending[key] = (value, other)
        return key

    def _same_place(self, node: Node, other: Node, value: Arg, parameter: str) -> Arg:
        """The argument of the reduced node that stands where ``parameter`` does in the full one."""
        from stitchcuda.codegen.ops import bind, rule_of

        rule, other_rule = rule_of(node), rule_of(other)
        if rule is None or other_rule is None or rule.code != other_rule.code:
            return value if node.args == other.args else _first_difference(node, other, value)
        return bind(other, other_rule).get(parameter, value)

    def _check_fixed(self) -> None:
        """Refuse other values of plain arguments: the graph was captured with these."""
        for name, value in self.program.fixed.items():
            plain = isinstance(value, bool | int | float | str) or value is None
            if plain and self.reduced_fixed.get(name, value) == value:
                test = f"{name} is not {value}" if value is None or isinstance(value, bool) else f"{name} != {value!r}"
                self.lines.append(f"if {test}:")
                self.lines.append(f'    raise ValueError("this candidate was written for {name}={value}")')

    # --- order ------------------------------------------------------------------------------------------------

    def write(self, groups: list[Group], kernels: list[Kernel]) -> list[str]:
        """Lines of the body, the ``return`` included."""
        group_of = {op: index for index, group in enumerate(groups) for op in group.ops}
        for node in self.program.nodes:
            if node.kind in ("parameter", "buffer"):
                self.text[node.name] = attribute_path(node.target)
            elif node.kind == "input":
                self.text[node.name] = node.target
        self._check_fixed()
        units = self._ordered_units(group_of)
        last_use = self._last_uses(units, groups)
        for position, unit in enumerate(units):
            dying = [name for name, last in last_use.items() if last == position and name in self.text]
            if isinstance(unit, int):
                self._kernel_call(groups[unit], kernels[unit], dying)
            else:
                self._torch_call(self.nodes[unit], dying, last_use)
        self.lines.append(f"return {self._result(self.program.result)}")
        return self.lines

    def _ordered_units(self, group_of: dict[str, int]) -> list[int | str]:
        """Groups and single ops in an order that respects data and effects; program order where free."""
        unit_of: dict[str, int | str] = {}
        first: dict[int | str, int] = {}
        needs: dict[int | str, set[int | str]] = {}
        for index, node in enumerate(self.program.nodes):
            if node.kind not in ("op", "constant"):
                continue
            unit: int | str = group_of.get(node.name, node.name)
            unit_of[node.name] = unit
            first.setdefault(unit, index)
            needs.setdefault(unit, set())
        previous: int | str | None = None
        for node in self.program.nodes:
            if node.name not in unit_of:
                continue
            unit = unit_of[node.name]
            needs[unit].update(unit_of[name] for name in inputs_of(node) if name in unit_of)
            if node.name in self.program.effects:
                if previous is not None:
                    needs[unit].add(previous)
                previous = unit
        for unit, sources in needs.items():
            sources.discard(unit)
        feeds: dict[int | str, list[int | str]] = {unit: [] for unit in needs}
        for unit, sources in needs.items():
            for source in sources:
                feeds[source].append(unit)
        missing = {unit: len(sources) for unit, sources in needs.items()}
        ready = [(first[unit], str(unit), unit) for unit, count in missing.items() if count == 0]
        heapq.heapify(ready)
        order: list[int | str] = []
        while ready:
            _, _, unit = heapq.heappop(ready)
            order.append(unit)
            for user in feeds[unit]:
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready, (first[user], str(user), user))
        assert len(order) == len(needs), "a fusion group is not convex"
        return order

    def _last_uses(self, units: list[int | str], groups: list[Group]) -> dict[str, int]:
        """Position of the last unit that reads each value that may be let go."""
        last: dict[str, int] = {}
        for position, unit in enumerate(units):
            names = list(groups[unit].inputs) if isinstance(unit, int) else inputs_of(self.nodes[unit])
            for name in names:
                if self.nodes[name].kind == "op":
                    last[name] = position
        for name in self.program.results():
            last.pop(name, None)
        return last

    # --- statements -------------------------------------------------------------------------------------------

    def _variable(self, node_name: str, dying: list[str], operands: list[str]) -> str:
        """A variable for a new value: that of an operand which ends here, else a new one."""
        for name in operands:
            if name in dying and self.nodes[name].kind == "op" and self.text[name].isidentifier():
                variable = self.text[name]
                if list(self.text.values()).count(variable) == 1:
                    return variable
        base = identifier(node_name).lstrip("_") or "value"
        if keyword.iskeyword(base) or base[0].isdigit():
            base = f"v_{base}"
        variable, number = base, 2
        while variable in self.taken:
            variable, number = f"{base}_{number}", number + 1
        self.taken.add(variable)
        return variable

    def _forget(self, dying: list[str], reused: set[str]) -> None:
        names = [self.text.pop(name) for name in dying if name in self.text]
        alive = set(self.text.values())
        gone = [name for name in dict.fromkeys(names) if name.isidentifier() and name not in reused | alive]
        if gone:
            self.lines.append(f"del {', '.join(gone)}")

    def _kernel_call(self, group: Group, kernel: Kernel, dying: list[str]) -> None:
        arguments = [self.text[name] for name in kernel.inputs]
        arguments += [self._scalar_text(scalar, group) for scalar in kernel.scalars]
        variables: list[str] = []
        for name in kernel.outputs:
            usable = [item for item in kernel.inputs if self.text[item] not in variables]
            variables.append(self._variable(name, dying, usable))
        self.lines.append(f"{', '.join(variables)} = kernels.{kernel.name}({', '.join(arguments)})")
        self._forget(dying, set(variables))
        self.text.update(zip(kernel.outputs, variables, strict=True))

    def _torch_call(self, node: Node, dying: list[str], last_use: dict[str, int]) -> None:
        if node.kind == "constant":
            value, variable = self._plain(node.value), self._variable(node.name, [], [])
            self.lines.append(
                f"{variable} = torch.tensor({value}, dtype=torch.{node.spec.dtype}, device={self._device()})"
            )
            self.text[node.name] = variable
            return
        expression = call(self._with_expressions(node), self._argument)
        used = node.name in last_use or node.name in self.program.results()
        if not used and is_in_place(node):
            self.lines.append(expression)
            self._forget(dying, set())
            return
        variable = self._variable(node.name, dying, inputs_of(node))
        self.lines.append(f"{variable} = {expression}")
        self._forget(dying, {variable})
        self.text[node.name] = variable

    def _argument(self, value: Arg) -> str:
        if isinstance(value, Ref):
            return self.text[value.node]
        if isinstance(value, tuple):
            inner = ", ".join(self._argument(item) for item in value)
            return f"[{inner}]"
        return self._plain(value)

    def _plain(self, value: Arg) -> str:
        if isinstance(value, tuple):
            return "[" + ", ".join(self._plain(item) for item in value) + "]"
        if isinstance(value, Named):
            if value.kind == "device":
                return self._device()
            if value.kind == "expression":
                return value.name
            return f'float("{value.name}")' if value.kind == "float" else f"torch.{value.name}"
        return repr(value)

    def _device(self) -> str:
        for node in self.program.nodes:
            if node.kind in ("input", "parameter", "buffer"):
                return f"{self.text[node.name]}.device"
        return '"cuda"'

    def _result(self, tree: OutputTree) -> str:
        if tree.kind == "leaf":
            return self._argument(tree.leaf)
        items = [self._result(item) for item in tree.items]
        if tree.kind == "dict":
            return "{" + ", ".join(f"{key!r}: {item}" for key, item in zip(tree.keys, items, strict=True)) + "}"
        if tree.kind == "list":
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    # --- two sizes --------------------------------------------------------------------------------------------

    def _with_expressions(self, node: Node) -> Node:
        """``node`` with every number that differs between the sizes replaced by an expression."""
        if self.reduced is None:
            return node
        other = self.reduced[node.name]
        if node.args == other.args and node.kwargs == other.kwargs:
            return node
        known = self._known(inputs_of(node))

        def merge(full: Arg, small: Arg) -> Arg:
            if isinstance(full, tuple) and isinstance(small, tuple):
                return tuple(merge(a, b) for a, b in zip(full, small, strict=True))
            return full if full == small else self._expression(full, small, known, node)

        if node.op in ("view", "reshape") and (shape := self._inferred(node.args[1], other.args[1], known)) is not None:
            return node.model_copy(update={"args": (node.args[0], shape)})
        args = tuple(merge(a, b) for a, b in zip(node.args, other.args, strict=True))
        kwargs = {key: merge(value, other.kwargs[key]) for key, value in node.kwargs.items()}
        return node.model_copy(update={"args": args, "kwargs": kwargs})

    def _inferred(self, full: Arg, small: Arg, known: list[Pair]) -> Arg:
        """A shape with ``-1`` for its only size that is no other tensor's size; ``None`` if there are more."""
        if not isinstance(full, tuple) or not isinstance(small, tuple) or -1 in full:
            return None
        exact = {(pair.full, pair.reduced): pair.text for pair in known}
        texts = [exact.get((a, b)) if a != b else None for a, b in zip(full, small, strict=True)]  # type: ignore[arg-type]
        open_ = [i for i, (a, b) in enumerate(zip(full, small, strict=True)) if a != b and texts[i] is None]
        if len(open_) != 1:
            return None
        return tuple(
            -1 if i == open_[0] else (Named(kind="expression", name=text) if text is not None else size)
            for i, (size, text) in enumerate(zip(full, texts, strict=True))
        )

    def _expression(self, full: Arg, small: Arg, known: list[Pair], node: Node) -> Arg:
        if isinstance(full, int | float) and isinstance(small, int | float):
            text = find_expression(full, small, known)
            if text is not None:
                return Named(kind="expression", name=text)
        raise SizeConflict(
            f"{node.op} uses {full} at full size and {small} at reduced size, which no tensor's shape gives"
        )

    def _scalar_text(self, scalar: Scalar, group: Group) -> str:
        full, small = self.pending[scalar.python]
        node = self.nodes[scalar.python.split(":")[0]]
        found = self._expression(full, small, self._known(list(group.inputs)), node)
        assert isinstance(found, Named)
        return found.name

    def _known(self, near: list[str]) -> list[Pair]:
        """What numbers may follow: sizes of the op's operands, the inputs, the parameters; then modules' attributes."""
        order = list(dict.fromkeys(near))
        for kind in ("input", "parameter", "buffer"):
            order += [node.name for node in self.program.nodes if node.kind == kind]
        order += [name for name in self.text if self.nodes[name].kind == "op"]
        pairs: dict[tuple[int | float, int | float], Pair] = {}
        for name in dict.fromkeys(order):
            if name not in self.text or name not in self.specs or name not in self.reduced_specs:
                continue
            shapes = zip(self.specs[name].shape, self.reduced_specs[name].shape, strict=True)
            for dim, (full, small) in enumerate(shapes):
                if full != small and (full, small) not in pairs:
                    pairs[full, small] = Pair(f"{self.text[name]}.shape[{dim}]", full, small)
        for name, value in self.program.fixed.items():
            other = self.reduced_fixed.get(name, value)
            if isinstance(value, int | float) and isinstance(other, int | float) and value != other:
                pairs.setdefault((value, other), Pair(name, value, other))
        for path, value in self.program.numbers.items():
            there = self.reduced_numbers.get(path, value)
            if value != there:
                pairs.setdefault((value, there), Pair(attribute_path(path), value, there))
        return list(pairs.values())


def _first_difference(node: Node, other: Node, value: Arg) -> Arg:
    """The reduced counterpart of ``value`` among positional and keyword arguments."""
    for full, small in zip([*node.args, *node.kwargs.values()], [*other.args, *other.kwargs.values()], strict=False):
        if full == value and full != small:
            return small
    return value
