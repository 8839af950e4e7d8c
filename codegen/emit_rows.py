"""Row reductions as one kernel each, with the elementwise ops before and after them.

One block or one warp works on a row. A pass over the row computes every reduction whose input is known by then;
values of the next pass may use its result. Softmax needs one pass for maximum and sum together; layer norm one for
mean and variance together. The last pass writes the rows. What a pass needs is computed again from the inputs, which
a short row finds in the cache.
"""

from __future__ import annotations

from stitchcuda.codegen.emit_body import TORCH_TYPES, Body, Kernel, Scalar, ScalarSource, indented, working_name
from stitchcuda.codegen.groups import Group
from stitchcuda.codegen.ops import operands, rule_of
from stitchcuda.codegen.program import Program
from stitchcuda.codegen.rows import Reduction, row_reduction
from stitchcuda.codegen.schedule import Schedule
from stitchcuda.codegen.trace import Ref

__all__ = ["row_kernel"]

STATE_OF = {
    "sum": "Sum",
    "mean": "Sum",
    "norm1": "Sum",
    "norm2": "Sum",
    "rms_norm": "Sum",
    "amax": "Max",
    "amin": "Min",
    "softmax": "Softmax",
    "log_softmax": "Softmax",
    "logsumexp": "Softmax",
    "layer_norm": "Moments",
    "var": "Moments",
    "std": "Moments",
}
WARP_ROWS_PER_BLOCK = 4


def row_kernel(program: Program, group: Group, schedule: Schedule, scalar_source: ScalarSource) -> Kernel:
    """Write the kernel and the host function of a row group."""
    return _RowWriter(program, group, schedule, scalar_source).write()


class _RowWriter:
    def __init__(self, program: Program, group: Group, schedule: Schedule, scalar_source: ScalarSource) -> None:
        self.body = Body(program, group, scalar_source)
        self.group = group
        self.schedule = schedule
        self.name = working_name(group)
        self.members = set(group.ops)
        self.reductions: dict[str, Reduction] = {}
        for op in group.ops:
            found = row_reduction(self.body.nodes[op], self.body.specs)
            if isinstance(found, Reduction):
                self.reductions[op] = found
        rank = len(group.domain)
        self.kept = group.domain[: rank - group.row_dims] + (1,) * group.row_dims
        self.outer = group.domain[: rank - group.row_dims]
        self.levels = self._levels()
        self.passes = max((self.levels[op] for op in group.ops), default=0)

    # --- facts about nodes ----------------------------------------------------------------------------------

    def _wide(self, name: str) -> bool:
        """A value per element, not one per row."""
        return self.body.specs[name].shape == self.group.domain

    def _squeezed(self, name: str) -> bool:
        """A value per row whose shape lacks the reduced dimensions."""
        return name in self.members and not self._wide(name) and self.body.specs[name].shape != self.kept

    def _reads(self, name: str) -> list[str]:
        if name in self.reductions:
            reduction = self.reductions[name]
            return [item for item in (reduction.source, reduction.weight, reduction.bias) if item]
        rule = rule_of(self.body.nodes[name])
        assert rule is not None
        return [item.value.node for item in operands(self.body.nodes[name], rule) if isinstance(item.value, Ref)]

    def _levels(self) -> dict[str, int]:
        """How many passes must be over before a value can be computed."""
        levels: dict[str, int] = {}
        for op in self.group.ops:
            level = max((levels.get(name, 0) for name in self._reads(op)), default=0)
            levels[op] = level + 1 if op in self.reductions else level
        return levels

    def _appended(self) -> dict[str, int]:
        """Dimensions that an input lacks at its end: those that meet squeezed row values only."""
        appended: dict[str, int] = {}
        for name in self.group.inputs:
            readers = [op for op in self.group.ops if name in self._reads(op)]
            squeezed = [self._squeezed(op) and op not in self.reductions for op in readers]
            appended[name] = self.group.row_dims if all(squeezed) else 0
        return appended

    # --- passes ---------------------------------------------------------------------------------------------

    def _row_values(self, level: int) -> list[str]:
        """Statements for values that become known once ``level`` passes are over."""
        lines: list[str] = []
        for op in self.group.ops:
            if self.levels[op] != level:
                continue
            if op in self.reductions:
                lines += self._finish(op)
            elif not self._wide(op):
                lines += [*self._row_loads(op, lines), self.body.statement(op)]
        return lines

    def _row_loads(self, op: str, seen: list[str]) -> list[str]:
        loads = []
        for name in self._reads(op):
            line = self._row_load(name)
            if name not in self.members and line not in seen and line not in self.loaded:
                self.loaded.add(line)
                loads.append(line)
        return loads

    def _row_load(self, name: str) -> str:
        short = self.body.local(name)
        return f"const {self.body.ctype(name)} v_{short} = value_of(row_{short}[0]);"

    def _finish(self, op: str) -> list[str]:
        """Row values of a reduction from its combined state."""
        reduction, short = self.reductions[op], self.body.local(op)
        state = f"state_{short}"
        lines = [f"{state} = reduce_row({state}, scratch);"]
        value = {
            "sum": f"{state}.total",
            "mean": f"{state}.total / length",
            "norm1": f"{state}.total",
            "norm2": f"sqrtf({state}.total)",
            "amax": f"{state}.value",
            "amin": f"{state}.value",
            "logsumexp": f"isinf({state}.maximum) ? {state}.maximum : {state}.maximum + logf({state}.total)",
        }.get(reduction.kind)
        if reduction.kind in ("var", "std"):
            correction = self._parameter(op, "correction", reduction.correction)
            spread = f"{state}.squares / fmaxf(length - {correction}, 0.0f)"
            value = spread if reduction.kind == "var" else f"sqrtf({spread})"
        if value is not None:
            lines.append(f"const float v_{short} = {value};")
        elif reduction.kind == "softmax":
            lines.append(f"const float scale_{short} = 1.0f / {state}.total;")
        elif reduction.kind == "log_softmax":
            lines.append(f"const float shift_{short} = {state}.maximum + logf({state}.total);")
        elif reduction.kind == "layer_norm":
            eps = self._parameter(op, "eps", reduction.eps)
            lines.append(f"const float scale_{short} = 1.0f / sqrtf({state}.squares / length + {eps});")
        elif reduction.kind == "rms_norm":
            eps = self._parameter(op, "eps", reduction.eps)
            lines.append(f"const float scale_{short} = 1.0f / sqrtf({state}.total / length + {eps});")
        return lines

    def _parameter(self, op: str, name: str, value: object) -> str:
        return self.body.number(self.body.nodes[op], name, value, "float")  # type: ignore[arg-type]

    def _wide_statement(self, op: str) -> str:
        """The element of a whole-row reduction, or an elementwise op."""
        if op not in self.reductions:
            return self.body.statement(op)
        reduction, short = self.reductions[op], self.body.local(op)
        source, state = f"v_{self.body.local(reduction.source)}", f"state_{short}"
        code = {
            "softmax": f"expf({source} - {state}.maximum) * scale_{short}",
            "log_softmax": f"{source} - shift_{short}",
            "layer_norm": f"({source} - {state}.mean) * scale_{short}",
            "rms_norm": f"{source} * scale_{short}",
        }[reduction.kind]
        if reduction.weight:
            code = f"{code} * v_{self.body.local(reduction.weight)}"
        if reduction.bias:
            code = f"{code} + v_{self.body.local(reduction.bias)}"
        return f"const float v_{short} = {code};"

    def _accumulate(self, op: str) -> str:
        source = f"v_{self.body.local(self.reductions[op].source)}"
        kind = self.reductions[op].kind
        value = {"norm1": f"fabsf({source})", "norm2": f"{source} * {source}", "rms_norm": f"{source} * {source}"}
        return f"state_{self.body.local(op)}.add({value.get(kind, source)});"

    def _pass(self, level: int) -> list[str]:
        """One walk over the row: reductions whose input is known, and outputs that are."""
        reduces = [op for op in self.reductions if self.levels[op] == level + 1]
        writes = [name for name in self.group.outputs if self._wide(name) and self.levels[name] == level]
        if not reduces and not writes:
            return []
        needed: set[str] = set()
        todo = [*writes, *[self.reductions[op].source for op in reduces]]
        while todo:
            name = todo.pop()
            if name in needed or (name in self.members and not self._wide(name)):
                continue
            needed.add(name)
            if name in self.members:
                todo += self._reads(name)
        loads = [name for name in self.group.inputs if name in needed]
        lines = ["for (long long j = threadIdx.x * VEC; j < length; j += blockDim.x * VEC) {"]
        for name in loads:
            short, n = self.body.local(name), self.group.inputs.index(name)
            lines.append(
                f"  const Pack<{self.body.storage(name)}, VEC> pack_{short} ="
                f" load<VEC>(row_{short} + j * layout.steps[{n}], layout.steps[{n}]);"
            )
        lines += [f"  Pack<{self.body.storage(name)}, VEC> pack_{self.body.local(name)};" for name in writes]
        lines += ["#pragma unroll", "  for (int k = 0; k < VEC; ++k) {"]
        inner = [
            f"const {self.body.ctype(name)} v_{self.body.local(name)} = value_of(pack_{self.body.local(name)}.at[k]);"
            for name in loads
        ]
        inner += [self._wide_statement(op) for op in self.group.ops if op in needed]
        inner += [self._accumulate(op) for op in reduces]
        inner += [f"put(pack_{self.body.local(name)}.at[k], v_{self.body.local(name)});" for name in writes]
        lines += ["    " + line for line in inner]
        lines.append("  }")
        lines += [
            f"  store<VEC>(out_{self.body.local(name)} + row * length + j, pack_{self.body.local(name)});"
            for name in writes
        ]
        lines.append("}")
        return lines

    # --- text -----------------------------------------------------------------------------------------------

    def write(self) -> Kernel:
        group, body = self.group, self.body
        self.loaded: set[str] = set()
        code: list[str] = self._row_values(0)
        for level in range(self.passes + 1):
            new = [op for op in self.reductions if self.levels[op] == level + 1]
            for op in new:
                state = STATE_OF[self.reductions[op].kind]
                code.append(f"{state} state_{body.local(op)} = {state}::empty();")
            code += self._pass(level)
            code += self._row_values(level + 1)
        narrow = [name for name in group.outputs if not self._wide(name)]
        if narrow:
            code.append("if (threadIdx.x == 0) {")
            code += [f"  put(out_{body.local(name)}[row], v_{body.local(name)});" for name in narrow]
            code.append("}")
        states = {STATE_OF[reduction.kind] for reduction in self.reductions.values()}
        if "Max" in states:
            body.helper("nan_max")
        if "Min" in states:
            body.helper("nan_min")

        count = len(group.inputs)
        scalars = tuple(body.scalars.values())
        parameters = [f"const {body.storage(x)}* __restrict__ in_{body.local(x)}" for x in group.inputs]
        parameters += [f"{body.storage(x)}* __restrict__ out_{body.local(x)}" for x in group.outputs]
        parameters += [f"{scalar.kind} {scalar.name}" for scalar in scalars]
        parameters += [f"Layout<{count}> layout", "long long rows", "long long length"]
        warp = self.schedule.rows == "warp"
        threads = 32 * WARP_ROWS_PER_BLOCK if warp else self.schedule.block
        comment = [
            f"// {' -> '.join(group.op_kinds)}",
            f"// A {'warp' if warp else 'block'} per row of {' x '.join(map(str, group.domain[-group.row_dims :]))}"
            f" (any length works); {len(group.inputs)} tensor(s) read, {len(group.outputs)} written.",
        ]
        lines = [
            "template <int VEC>",
            f"__global__ void __launch_bounds__({threads}) {self.name}_kernel(",
            *[f"    {text}{',' if i + 1 < len(parameters) else ') {'}" for i, text in enumerate(parameters)],
            "  __shared__ float scratch[3 * 32];",
            "  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;",
            "  if (row >= rows) return;",
            f"  long long at[{count}];",
            f"  locate<{count}>(layout, row, at);",
            *[
                f"  const {body.storage(x)}* row_{body.local(x)} = in_{body.local(x)} + at[{n}];"
                for n, x in enumerate(group.inputs)
            ],
            indented(code, 1).replace("\n  #pragma", "\n#pragma"),
            "}",
            "",
        ]
        host, declaration = self._host(scalars)
        return Kernel(
            group_id=group.id,
            name=self.name,
            comment="\n".join(comment),
            cuda="\n".join(lines) + "\n" + host,
            declaration=declaration,
            inputs=group.inputs,
            outputs=group.outputs,
            scalars=scalars,
            helpers=frozenset(body.helpers),
            states=frozenset(states),
            chain=False,
        )

    def _host(self, scalars: tuple[Scalar, ...]) -> tuple[str, str]:
        group, body, name = self.group, self.body, self.name
        count, dims = len(group.inputs), group.row_dims
        appended = self._appended()
        names = [body.local(x) for x in group.inputs]
        outs = [f"out_{body.local(x)}" for x in group.outputs]
        arguments = [f"const torch::Tensor& {x}" for x in names]
        arguments += [f"{'double' if scalar.kind == 'float' else 'int64_t'} {scalar.name}" for scalar in scalars]
        result = "torch::Tensor" if len(outs) == 1 else "std::vector<torch::Tensor>"
        declaration = f"{result} {name}({', '.join(arguments)});"
        warp = self.schedule.rows == "warp"
        passed = [f"static_cast<const {body.storage(x)}*>(dense_{body.local(x)}.data_ptr())" for x in group.inputs]
        passed += [f"static_cast<{body.storage(x)}*>(out_{body.local(x)}.data_ptr())" for x in group.outputs]
        passed += [f"static_cast<{scalar.kind}>({scalar.name})" for scalar in scalars]

        lines = [f"{result} {name}({', '.join(arguments)}) {{"]
        for x, short in zip(group.inputs, names, strict=True):
            lines.append(f'  check_operand({short}, {TORCH_TYPES[body.specs[x].dtype]}, "{name}: {short}");')
        shaped = ", ".join(f"&{body.local(x)}" for x in group.inputs if not appended[x])
        lines += [
            f"  const c10::cuda::CUDAGuard guard({names[0]}.device());",
            f'  const std::vector<int64_t> shape = broadcast_shape({{{shaped}}}, "{name}");',
            f'  TORCH_CHECK(shape.size() == {len(group.domain)}, "{name}: expected {len(group.domain)} dimensions");',
            f"  const int outer = static_cast<int>(shape.size()) - {dims};",
            f"  const long long length = row_length(shape, {dims});",
        ]
        if any(self.body.specs[x].shape == self.kept for x in group.outputs if not self._wide(x)):
            lines += [
                "  std::vector<int64_t> kept_shape = shape;",
                "  for (size_t d = static_cast<size_t>(outer); d < shape.size(); ++d) kept_shape[d] = 1;",
            ]
        if any(self._squeezed(x) for x in group.outputs):
            lines.append("  const std::vector<int64_t> outer_shape(shape.begin(), shape.begin() + outer);")
        for x, out in zip(group.outputs, outs, strict=True):
            shape = "shape" if self._wide(x) else ("outer_shape" if self._squeezed(x) else "kept_shape")
            kind = TORCH_TYPES[body.specs[x].dtype]
            lines.append(f"  torch::Tensor {out} = torch::empty({shape}, {names[0]}.options().dtype({kind}));")
        returned = outs[0] if len(outs) == 1 else "{" + ", ".join(outs) + "}"
        lines += [
            "  long long rows = 1;",
            "  for (int d = 0; d < outer; ++d) rows *= shape[static_cast<size_t>(d)];",
            f"  if (rows == 0) return {returned};",
            f'  TORCH_CHECK(length > 0, "{name}: the rows are empty");',
        ]
        for x, short in zip(group.inputs, names, strict=True):
            rows = short if appended[x] else f"with_dense_rows({short}, {dims})"
            lines.append(f"  const torch::Tensor dense_{short} = {rows};")
        everything = ", ".join(f"&dense_{x}" for x in names)
        shifts = ", ".join(str(appended[x]) for x in group.inputs)
        lines.append(f"  Layout<{count}> layout = collapse<{count}>(shape, outer, {{{everything}}}, {{{shifts}}});")
        for n, (x, short) in enumerate(zip(group.inputs, names, strict=True)):
            lines.append(
                f'  layout.steps[{n}] = row_step(dense_{short}, shape, {dims}, {appended[x]}, "{name}: {short}");'
            )
        block = f"dim3(32, {WARP_ROWS_PER_BLOCK})" if warp else f"dim3({self.schedule.block})"
        grid = f"(rows + {WARP_ROWS_PER_BLOCK - 1}) / {WARP_ROWS_PER_BLOCK}" if warp else "rows"
        launch = [
            f"<<<static_cast<unsigned>({grid}), {block}, 0, at::cuda::getCurrentCUDAStream()>>>(",
            *[f"        {text}," for text in passed],
            "        layout, rows, length);",
        ]
        if self.schedule.vec > 1:
            pairs = ", ".join(
                f"Address{{dense_{x}.data_ptr(), sizeof({body.storage(y)})}}"
                for x, y in zip(names, group.inputs, strict=True)
            )
            lines += [
                f"  if (fits_vector<{count}>(layout, layout.dims, length, {{{pairs}}}, {self.schedule.vec})) {{",
                f"    {name}_kernel<{self.schedule.vec}>{launch[0]}",
                *launch[1:],
                "  } else {",
                f"    {name}_kernel<1>{launch[0]}",
                *launch[1:],
                "  }",
            ]
        else:
            lines += [f"  {name}_kernel<1>{launch[0]}", *launch[1:]]
        lines += ["  C10_CUDA_KERNEL_LAUNCH_CHECK();", f"  return {returned};", "}", ""]
        return "\n".join(lines), declaration
