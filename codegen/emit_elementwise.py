"""Elementwise chains as one kernel each.

Every thread handles ``items`` times ``vec`` neighbouring elements in registers: each input is read once, each output
is written once.
Same-shape contiguous operands collapse to one dimension; broadcast and strided ones are located by index arithmetic.
"""

from __future__ import annotations

from stitchcuda.codegen.emit_body import TORCH_TYPES, Body, Kernel, ScalarSource, indented, working_name
from stitchcuda.codegen.groups import Group
from stitchcuda.codegen.program import Program
from stitchcuda.codegen.schedule import Schedule

__all__ = ["elementwise_kernel"]


def elementwise_kernel(program: Program, group: Group, schedule: Schedule, scalar_source: ScalarSource) -> Kernel:
    """Write the kernel and the host function of an elementwise group."""
    body = Body(program, group, scalar_source)
    name = working_name(group)
    tensors = [*group.inputs, *group.outputs]
    count = len(tensors)
    statements = [body.statement(op) for op in group.ops]
    loads = [
        f"const {body.ctype(x)} v_{body.local(x)} = value_of(pack_{body.local(x)}[t].at[k]);" for x in group.inputs
    ]
    puts = [f"put(pack_{body.local(x)}.at[k], v_{body.local(x)});" for x in group.outputs]
    scalars = tuple(body.scalars.values())

    parameters = [f"const {body.storage(x)}* __restrict__ in_{body.local(x)}" for x in group.inputs]
    parameters += [f"{body.storage(x)}* __restrict__ out_{body.local(x)}" for x in group.outputs]
    parameters += [f"{scalar.kind} {scalar.name}" for scalar in scalars]
    parameters += [f"Layout<{count}> layout", "index_t vectors"]

    items = schedule.items
    shapes = [(x, body.storage(x), body.local(x)) for x in group.inputs]
    lines = [
        "template <int VEC, typename index_t>",
        f"__global__ void __launch_bounds__({schedule.block}) {name}_kernel(",
        *[f"    {text}{',' if i + 1 < len(parameters) else ') {'}" for i, text in enumerate(parameters)],
        f"  const index_t first = static_cast<index_t>(blockIdx.x) * {schedule.block * items} + threadIdx.x;",
        f"  index_t at[{items}][{count}];",
        *[f"  Pack<{kind}, VEC> pack_{x}[{items}];" for _, kind, x in shapes],
        "#pragma unroll",
        f"  for (int t = 0; t < {items}; ++t) {{  // all loads first: more bytes in flight",
        f"    const index_t i = first + t * {schedule.block};",
        "    if (i >= vectors) break;",
        f"    locate<{count}>(layout, i * VEC, at[t]);",
        *[
            f"    pack_{x}[t] = load<VEC>(in_{x} + at[t][{n}], layout.steps[{n}]);"
            for n, (_, _, x) in enumerate(shapes)
        ],
        "  }",
        "#pragma unroll",
        f"  for (int t = 0; t < {items}; ++t) {{",
        f"    if (first + t * {schedule.block} >= vectors) break;",
        *[f"    Pack<{body.storage(x)}, VEC> pack_{body.local(x)};" for x in group.outputs],
        "#pragma unroll",
        "    for (int k = 0; k < VEC; ++k) {",
        indented([*loads, *statements, *puts], 3),
        "    }",
        *[
            f"    store<VEC>(out_{body.local(x)} + at[t][{n}], pack_{body.local(x)});"
            for n, x in enumerate(group.outputs, len(group.inputs))
        ],
        "  }",
        "}",
        "",
    ]

    comment = [
        f"// {' -> '.join(group.op_kinds)}",
        f"// One pass over {group.output_shapes[-1]}: {len(group.inputs)} tensor(s) read, {len(group.outputs)} written."
        + (
            f" As separate ops: {group.bytes_before / group.bytes_after:.1f}x the memory traffic."
            if group.saved_bytes
            else ""
        ),
    ]
    host, declaration = _host(body, group, schedule, name)
    return Kernel(
        group_id=group.id,
        name=name,
        comment="\n".join(comment),
        cuda="\n".join(lines) + "\n" + host,
        declaration=declaration,
        inputs=group.inputs,
        outputs=group.outputs,
        scalars=scalars,
        helpers=frozenset(body.helpers),
    )


def _host(body: Body, group: Group, schedule: Schedule, name: str) -> tuple[str, str]:
    scalars = list(body.scalars.values())
    tensors = [*group.inputs, *group.outputs]
    count = len(tensors)
    names = [body.local(x) for x in group.inputs]
    arguments = [f"const torch::Tensor& {x}" for x in names]
    arguments += [f"{'double' if scalar.kind == 'float' else 'int64_t'} {scalar.name}" for scalar in scalars]
    single = len(group.outputs) == 1
    result = "torch::Tensor" if single else "std::vector<torch::Tensor>"
    declaration = f"{result} {name}({', '.join(arguments)});"

    pointers = [f"static_cast<const {body.storage(x)}*>({body.local(x)}.data_ptr())" for x in group.inputs]
    pointers += [f"static_cast<{body.storage(x)}*>(out_{body.local(x)}.data_ptr())" for x in group.outputs]
    passed = pointers + [f"static_cast<{scalar.kind}>({scalar.name})" for scalar in scalars]
    locals_ = [f"{body.local(x)}" for x in group.inputs] + [f"out_{body.local(x)}" for x in group.outputs]
    launch_parameters = [f"const torch::Tensor& {x}" for x in locals_]
    launch_parameters += [f"{'double' if scalar.kind == 'float' else 'int64_t'} {scalar.name}" for scalar in scalars]
    launch_arguments = ", ".join([*locals_, *[scalar.name for scalar in scalars]])

    lines = [
        "template <int VEC, typename index_t>",
        f"static void launch_{name}({', '.join(launch_parameters)}, const Layout<{count}>& layout) {{",
        f"  const long long vectors = {locals_[-1]}.numel() / VEC;",
        f"  {name}_kernel<VEC, index_t><<<grid_size(vectors, {schedule.block * schedule.items}), {schedule.block}, 0,",
        "      at::cuda::getCurrentCUDAStream()>>>(",
        *[f"      {text}," for text in passed],
        "      layout, static_cast<index_t>(vectors));",
        "  C10_CUDA_KERNEL_LAUNCH_CHECK();",
        "}",
        "",
        f"{result} {name}({', '.join(arguments)}) {{",
    ]
    for x, short in zip(group.inputs, names, strict=True):
        lines.append(f'  check_operand({short}, {TORCH_TYPES[body.specs[x].dtype]}, "{name}: {short}");')
    addresses = ", ".join(f"&{x}" for x in names)
    lines += [
        f"  const c10::cuda::CUDAGuard guard({names[0]}.device());",
        f'  const std::vector<int64_t> shape = broadcast_shape({{{addresses}}}, "{name}");',
    ]
    for x in group.outputs:
        kind = TORCH_TYPES[body.specs[x].dtype]
        lines.append(f"  torch::Tensor out_{body.local(x)} = torch::empty(shape, {names[0]}.options().dtype({kind}));")
    returned = f"out_{body.local(group.outputs[0])}" if single else "{" + ", ".join(locals_[len(names) :]) + "}"
    everything = ", ".join(f"&{x}" for x in locals_)
    zeros = ", ".join("0" for _ in tensors)
    lines += [
        f"  if ({locals_[-1]}.numel() == 0) return {returned};",
        f"  const Layout<{count}> layout = collapse<{count}>(shape, static_cast<int>(shape.size()), {{{everything}}},"
        f" {{{zeros}}});",
    ]
    if schedule.vec > 1:
        pairs = ", ".join(
            f"Address{{{x}.data_ptr(), sizeof({body.storage(y)})}}" for x, y in zip(locals_, tensors, strict=True)
        )
        lines += [
            f"  const bool vectors = fits_vector<{count}>(layout, layout.dims - 1, layout.sizes[layout.dims - 1],",
            f"      {{{pairs}}}, {schedule.vec});",
            "  if (vectors && layout.small) {",
            f"    launch_{name}<{schedule.vec}, int>({launch_arguments}, layout);",
            "  } else if (vectors) {",
            f"    launch_{name}<{schedule.vec}, long long>({launch_arguments}, layout);",
            "  } else if (layout.small) {",
        ]
    else:
        lines.append("  if (layout.small) {")
    lines += [
        f"    launch_{name}<1, int>({launch_arguments}, layout);",
        "  } else {",
        f"    launch_{name}<1, long long>({launch_arguments}, layout);",
        "  }",
        f"  return {returned};",
        "}",
        "",
    ]
    return "\n".join(lines), declaration
