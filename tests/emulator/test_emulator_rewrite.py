"""The rewriter: what it changes, what it leaves alone, what it refuses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitchcuda.tools.emulator import UnsupportedOnCpu, rewrite


def rewritten(source: str) -> str:
    text = rewrite(source, "candidate.cu").text
    assert text.count("\n") == source.count("\n")
    return text


PLAIN = r"""
// kernel<<<1, 2>>>(x); __shared__ float s[3]; x.is_cuda()
/* asm("mov.u32"); kCUDA <<< >>> __shared__ */
#include <vector>
const char* a = "kernel<<<1, 2>>>(x) __shared__ asm(\"x\") // kCUDA";
const char* b = R"cu(__shared__ int s[4]; kernel<<<1, 1>>>(); )" is_cuda )cu";
char c = '"', d = '\'', e = '<';
long n = 1'000'000;
int shift(int x) { return x << 3 >> 1 << 2; }
template <class T, class U = std::vector<std::vector<std::vector<T>>>> struct S { U u; };
std::vector<std::vector<std::vector<int>>> (*pointer)(int);
#define TEXT "is_cuda \
<<<"
#if 0
asm("mov"); kernel<<<1, 1>>>(x); __shared__ float s;
#if 1
__shared__
#endif
#else
int used;
#endif
int asmx, my__shared__, is_cuda_ok, kCUDAx;
"""


def test_plain_text_stays_as_it_is() -> None:
    assert rewritten(PLAIN) == PLAIN
    crlf = PLAIN.replace("\n", "\r\n")
    assert rewritten(crlf) == crlf


@pytest.mark.parametrize(
    ("launch", "kernel", "configuration", "arguments"),
    [
        ("k<<<1, 32>>>(x, n);", "k", "1, 32", "x, n"),
        ("k<float, 4><<<grid, block, 0, stream>>>(x);", "k<float, 4>", "grid, block, 0, stream", "x"),
        ("k<scalar_t><<<dim3(a, b), dim3(c < d ? c : d)>>>(f(x), g<int>(y));", "k<scalar_t>",
         "dim3(a, b), dim3(c < d ? c : d)", "f(x), g<int>(y)"),
        ("ns::inner::k<A<B<int>>><<<(n + 255) >> 8, 256>>>();", "ns::inner::k<A<B<int>>>", "(n + 255) >> 8, 256", ""),
        ("k<(N > 4), N><<<1, sizeof(T[N >> 1])>>>(x);", "k<(N > 4), N>", "1, sizeof(T[N >> 1])", "x"),
        ("::k <<< g , b >>> (x);", "::k ", " g , b ", "x"),
    ],
)  # fmt: skip
def test_launches(launch: str, kernel: str, configuration: str, arguments: str) -> None:
    text = rewritten(f"template <class... T> __global__ void k(T... t) {{}}\nvoid f() {{ if (ok) {launch} }}\n")
    assert f'::stitch::launcher("k", 2, [&](auto&... stitch_a) {{ {kernel}(stitch_a...); }})' in text
    assert re.search(r"\.config\(" + re.escape(configuration) + r"\) ?\(" + re.escape(arguments) + r"\);", text)


def test_a_launch_over_several_lines_keeps_each_part_on_its_line() -> None:
    source = (
        "__global__ void k(int* x, int n);\nvoid f() {\n  k\n  <<<dim3(1,\n  2),\n  3>>>(\n    x,\n    NULL\n  );\n}\n"
    )
    lines = rewritten(source).splitlines()
    assert lines[4].strip().startswith("2)")
    assert lines[5].strip().startswith("3)(")
    assert lines[7].strip() == "nullptr"


def test_a_launch_inside_a_macro() -> None:
    text = rewritten("#define GO(T, ...) \\\n  k<T><<<g, \\\n  b>>>(__VA_ARGS__)\n")
    assert text.splitlines()[1].endswith(".config(g, \\")


@pytest.mark.parametrize(
    "launch", ["table[i]<<<1, 1>>>(x)", "(*pick)<<<1, 1>>>(x)", "pick<<<1, 1>>>(x)", "s.pick<<<1, 1>>>(x)"]
)
def test_a_launch_through_a_variable_passes_its_address(launch: str) -> None:
    assert "(const void*)(" in rewritten(f"void f() {{ {launch}; }}\n")


def test_kernels_are_found_in_order() -> None:
    source = """
template <int N> __global__ void __launch_bounds__(N * 2, 1) first(int* x) {}
static __global__ __attribute__((used)) void second(int (*f)(int));
template <> __global__ void first<4>(int* x) {}
extern "C" __global__ void third() {}
"""
    assert rewrite(source, "k.cu").kernels == ("first", "second", "third")


@pytest.mark.parametrize(
    ("declaration", "names"),
    [
        ("__shared__ float s[32];", ["s"]),
        ("__shared__ T a[N][N + 1], b, c[2];", ["a", "b", "c"]),
        ("__shared__ __align__(16) unsigned long long s[4];", ["s"]),
        ("volatile __shared__ float s[64];", ["s"]),
        ("static __shared__ std::pair<int, float> best[THREADS / 32];", ["best"]),
        ("__shared__ typename Reduce<T, 256>::Storage storage;", ["storage"]),
        ("__shared__ struct { float a; int b[3]; } both;", ["both"]),
        ("alignas(16) __shared__ float *p;", ["p"]),
        ("__shared__ alignas(double) char raw[sizeof(double) * 4];", ["raw"]),
        ("float __shared__ late[3];", ["late"]),
        ("__shared__ float\n  two[3],\n  lines[4];", ["two", "lines"]),
        ("extern __shared__ float dynamic[];", ["dynamic"]),
        ("extern __shared__ __align__(16) char raw[];", ["raw"]),
    ],
)
def test_shared_variables(declaration: str, names: list[str]) -> None:
    text = rewritten(f"__global__ void k() {{ {declaration} use(); }}\n")
    assert "__shared__" not in text
    for name in names:
        assert f"stitch_shared_{name}" in text
        assert f"auto& {name} = " in text
    assert text.count("auto& ") - text.count("-> auto& ") == len(names)
    assert ("DynamicShared" in text) == declaration.startswith("extern")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('TORCH_CHECK(x.is_cuda(), "x")', 'TORCH_CHECK(x.is_cpu(), "x")'),
        ("#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x)", "#define CHECK_CUDA(x) TORCH_CHECK(x.is_cpu(), #x)"),
        ("x.type().is_cuda()", "x.device().is_cpu()"),
        ("x.device().type() == torch::kCUDA", "x.device().type() == torch::kCPU"),
        ("options.device(at::kCUDA, 0)", "options.device(at::kCPU, 0)"),
        ('torch::Device("cuda:0")', 'torch::Device("cpu")'),
        ('options.device("cuda")', 'options.device("cpu")'),
        ("c10::DeviceType::CUDA", "c10::DeviceType::CPU"),
        ("y = x.cuda();", "y = x.cpu();"),
        ("TORCH_LIBRARY_IMPL(mine, CUDA, m)", "TORCH_LIBRARY_IMPL(mine, CPU, m)"),
        ("torch::cuda::is_available()", "::stitch::cuda_is_available()"),
        ("#if __CUDA_ARCH__ >= 800", "#if STITCH_CUDA_ARCH >= 800"),
        (
            "PackedTensorAccessor32<T, 2, torch::RestrictPtrTraits>",
            "PackedTensorAccessor32<T, 2, torch::DefaultPtrTraits>",
        ),
        ("#ifdef __CUDACC__", "#ifdef STITCH_CUDACC"),
        ("__noinline__ __device__ int f();", "__attribute__((noinline)) __device__ int f();"),
        ("__attribute__((__noinline__)) int f();", "__attribute__((__noinline__)) int f();"),
    ],
)
def test_words_of_the_host_side(before: str, after: str) -> None:
    assert rewritten(before + "\n") == after + "\n"


@pytest.mark.parametrize(
    ("source", "feature", "line"),
    [
        ('int f() {\n asm volatile("activemask.b32 %0;" : "=r"(x));\n}', "inline PTX", 2),
        ('__asm__("bar.sync 1, 64;");', "inline PTX", 1),
        ("#include <vector>\n#include <cub/device/device_reduce.cuh>\n", "CUB", 2),
        ("#include <cublasLt.h>\n", "cuBLASLt", 1),
        ("__global__ void a() {}\n__global__ void b() {\n a<<<1, 1>>>();\n}\n", "dynamic parallelism", 3),
        ("void f() { __shared__ float a = 3; }", "initialised", 1),
        ("__global__ void k() { k<<<1, 1>>>;", "launch", 1),
        ("void f() { 1 <<<2, 3>>>(x); }", "form of a kernel launch", 1),
        ("void f() { g(__shared__); }", "__shared__", 1),
    ],
)
def test_what_cannot_be_run_is_refused_with_its_line(source: str, feature: str, line: int) -> None:
    with pytest.raises(UnsupportedOnCpu, match=re.escape(feature)) as caught:
        rewrite(source, "candidate.cu")
    assert caught.value.line == line
    assert f"line {line}" in str(caught.value)


def test_a_fence_for_the_compiler_and_lookalikes_pass() -> None:
    for source in ('asm volatile("" ::: "memory");', "int cub = 1, thrust; cub = thrust;", "x.tex2D = 1;"):
        assert rewritten(source) == source


WORDS = """<<< >>> < > ( ) [ ] { } ; , ::
    __shared__ extern __global__ void k float s [32] // /* */ R"( )" " ' = 1 1'0 NULL
    __align__(16) template< is_cuda kCUDA asm cudaFuncSetAttribute( #if #endif #define"""
PIECES = st.sampled_from([*WORDS.split(), "\n", "\\\n", "\r\n", "\n#if 0\n", " "])
CUDA_WORDS = re.compile(
    r"__shared__|<<<|asm|is_cuda|kCUDA|CUDA|cuda|__noinline__|__NVCC__|#\s*include|NULL"
    r"|\b(?:wmma|nvcuda|cub|thrust|cutlass|this_cluster|cluster_group|memcpy_async|this_multi_grid|tex\w+|curand_init)\b"
    r"|__pipeline|__cluster|__nv_fp8|__cvta|cuLaunch|getC\w+Handle"
)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_soup_of_cuda_never_crashes_and_keeps_its_lines(source: str) -> None:
    try:
        line = 1
        rewritten(source)
    except UnsupportedOnCpu as error:
        line = error.line
    assert 1 <= line <= source.count("\n") + 1


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_text_without_cuda_is_returned_byte_for_byte(source: str) -> None:
    if not CUDA_WORDS.search(source):
        assert rewrite(source, "x").text == source


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("#if __CUDA_ARCH__ >= 800", True),
        ("#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 700)", False),
        ("#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000", False),
        ("#ifdef __CUDA_ARCH__", True),
        ("#ifndef __CUDACC__", False),
        ("#ifdef USE_ROCM", False),
        ("#if 0", False),
        ("#if 1 // always", True),
    ],
)
def test_only_the_branch_that_is_taken_has_to_be_supported(condition: str, taken: bool) -> None:
    hard, easy = 'asm volatile("wgmma.fence.sync.aligned;");', "int a;"
    for first, second, is_hard_taken in ((hard, easy, taken), (easy, hard, not taken)):
        text = f"void f() {{\n{condition}\n{first}\n#else\n{second}\n#endif\n}}\n"
        if is_hard_taken:
            with pytest.raises(UnsupportedOnCpu, match="wgmma"):
                rewrite(text, "a.cu")
        else:
            assert hard in rewrite(text, "a.cu").text


@pytest.mark.parametrize("condition", ["#if USE_FAST", "#ifdef MINE", "#if __CUDA_ARCH__ >= 900 && MINE", "#if (("])
def test_branches_of_an_unknown_condition_must_all_be_supported(condition: str) -> None:
    with pytest.raises(UnsupportedOnCpu, match="wgmma"):
        rewrite(f'{condition}\nasm("wgmma.fence.sync.aligned;");\n#else\nint a;\n#endif\n', "a.cu")
    with pytest.raises(UnsupportedOnCpu, match="wgmma"):
        rewrite(f'{condition}\nint a;\n#else\nasm("wgmma.fence.sync.aligned;");\n#endif\n', "a.cu")
