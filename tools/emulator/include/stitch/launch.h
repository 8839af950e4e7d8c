// kernel<<<grid, block, shared, stream>>>(arguments), as the rewriter spells it:
// stitch::launcher("kernel", line, [&](auto&... a) { kernel(a...); }).config(grid, block, shared, stream)(arguments)
#pragma once
#include <tuple>
#include <utility>

#include "cooperative.h"
#include "runtime.h"

struct CUstream_st;
typedef CUstream_st* cudaStream_t;

namespace stitch {

// Kernels that cudaFuncSetAttribute has allowed more than 48 KB of dynamic shared memory.
struct Allowance {
    const void* function;
    const char* name;
    std::size_t bytes;
};
STITCH_STATE Allowance allowances[256];
STITCH_STATE unsigned allowance_count = 0;

inline std::size_t allowed_dynamic_bytes(const char* name, const void* function) {
    std::size_t bytes = static_shared_limit;
    for (unsigned i = 0; i < allowance_count; ++i) {
        const Allowance& allowance = allowances[i];
        // A kernel reached through a variable or a macro is matched by address if possible, else trusted.
        const bool same_function = function != nullptr && allowance.function == function;
        const bool unknown = function == nullptr && (allowance.name[0] == '*' || name[0] == '*');
        const bool same_name = unknown || std::strcmp(allowance.name, name) == 0;
        if ((same_function || same_name) && allowance.bytes > bytes) bytes = allowance.bytes;
    }
    return bytes;
}

STITCH_STATE char refusal[400];  // how the last launch that was refused looked

inline cudaError_t fail(cudaError_t error) {
    refusal[0] = 0;
    if (error != cudaSuccess) device.last_error = error;
    return error;
}

inline cudaError_t check_launch(dim3 grid, dim3 block, std::size_t dynamic_bytes, const char* name, const void* function) {
    const unsigned long long threads = 1ull * block.x * block.y * block.z;
    if (threads == 0 || block.x > 1024 || block.y > 1024 || block.z > 64 || threads > max_threads) return cudaErrorInvalidConfiguration;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaErrorInvalidConfiguration;
    if (grid.x > 0x7fffffffu || grid.y > 65535u || grid.z > 65535u) return cudaErrorInvalidConfiguration;
    if (dynamic_bytes > allowed_dynamic_bytes(name, function)) return cudaErrorInvalidValue;
    return cudaSuccess;
}

inline void set_block_shape(dim3 block) {
    Device& d = device;
    d.threads = block.x * block.y * block.z;
    blockDim = block;
    if (d.index_x == block.x && d.index_y == block.y && d.index_z == block.z) return;
    unsigned thread = 0;
    for (unsigned z = 0; z < block.z; ++z)
        for (unsigned y = 0; y < block.y; ++y)
            for (unsigned x = 0; x < block.x; ++x) d.index[thread++] = {x, y, z};
    d.index_x = block.x;
    d.index_y = block.y;
    d.index_z = block.z;
}

struct LaunchLock {
    LaunchLock() { pthread_mutex_lock(&launch_lock); }
    ~LaunchLock() { pthread_mutex_unlock(&launch_lock); }
    LaunchLock(const LaunchLock&) = delete;
    LaunchLock& operator=(const LaunchLock&) = delete;
};

// Says that a kernel runs; also when no stack could be had for the next thread.
struct KernelScope {
    KernelScope() { device.in_kernel = true; }
    ~KernelScope() { device.in_kernel = false; }
    KernelScope(const KernelScope&) = delete;
    KernelScope& operator=(const KernelScope&) = delete;
};

__attribute__((visibility("hidden"), noinline)) inline void run_grid(const char* name, int line, dim3 grid, dim3 block,
                                                                     std::size_t dynamic_bytes, const void* function,
                                                                     void (*run)(void*), void* functor, bool cooperative = false) {
    Device& d = device;
    if (d.in_kernel && pthread_equal(launch_owner, pthread_self()))
        abandon(cudaErrorNotSupported, "not supported by the cpu device: a kernel launches a kernel (line %d)", line);
    LaunchLock lock;
    cudaError_t error = check_launch(grid, block, dynamic_bytes, name, function);
    const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
    if (error == cudaSuccess && cooperative && blocks > max_cooperative_blocks) error = cudaErrorCooperativeLaunchTooLarge;
    if (error != cudaSuccess) {
        fail(error);
        std::snprintf(refusal, sizeof refusal, "%s: kernel '%s' (line %d) was launched with grid (%u, %u, %u), block (%u, %u, %u), %zu bytes of shared memory",
                      cudaGetErrorString(error), name[0] == '*' ? name + 1 : name, line, grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_bytes);
        return;
    }
    launch_total++;
    launch_owner = pthread_self();
    d.kernel = name[0] == '*' ? name + 1 : name;
    d.launch_line = line;
    d.run = run;
    d.functor = functor;
    if (d.block_number == 0) {
        d.block_number = reinterpret_cast<std::uintptr_t>(&d) << 16;
        for (Warp& warp : d.warps) warp.meetings[0].mask = 0xffffffffu;
    }
    d.dynamic_used = dynamic_bytes;
    std::memset(dynamic_shared_memory + dynamic_bytes, 0xff, canary_bytes);
    set_block_shape(block);
    gridDim = grid;
    choose_schedule();
    KernelScope scope;
    d.cooperative = cooperative && blocks > 1;
    if (d.cooperative) run_cooperative(grid);
    else
    for (unsigned z = 0; z < grid.z && !d.failed; ++z)
        for (unsigned y = 0; y < grid.y && !d.failed; ++y)
            for (unsigned x = 0; x < grid.x && !d.failed; ++x) {
                blockIdx = {x, y, z};
                if (d.schedule == Schedule::descending) blockIdx = {grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z};
                run_block();
            }
    d.in_kernel = false;
    if (!d.failed) return;
    fail(d.failure);
    reset_fibers();
    for (Warp& warp : d.warps) warp.meetings[0].mask = 0xffffffffu;
    if (d.thrown) {
        std::exception_ptr thrown = d.thrown;
        d.thrown = nullptr;
        std::rethrow_exception(thrown);
    }
    throw CudaError("%s", d.message);
}

template <class Kernel>
struct Configured {
    const char* name;
    int line;
    const void* function;
    Kernel kernel;
    dim3 grid, block;
    std::size_t dynamic_bytes;

    template <class... Arguments>
    void operator()(Arguments... arguments) {
        stitch_note_launch();
        (note_argument(arguments), ...);
        auto call = [&] { kernel(arguments...); };
        run_grid(name, line, grid, block, dynamic_bytes, function, run_threads<decltype(call)>, &call);
    }
};

// cudaLaunchKernel and cudaLaunchCooperativeKernel, with the kernel's type kept by the rewriter.
template <class... Parameters, std::size_t... I>
inline cudaError_t launch_pointers(bool cooperative, const char* name, int line, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                   void** pointers, std::size_t dynamic_bytes, std::index_sequence<I...>) {
    std::tuple<std::remove_cv_t<std::remove_reference_t<Parameters>>...> values(
        *static_cast<std::remove_cv_t<std::remove_reference_t<Parameters>>*>(pointers[I])...);
    stitch_note_launch();
    (note_argument(std::get<I>(values)), ...);
    auto call = [&] { kernel(std::get<I>(values)...); };
    run_grid(name, line, grid, block, dynamic_bytes, (const void*)(kernel), run_threads<decltype(call)>, &call, cooperative);
    return device.last_error;
}
template <class... Parameters>
inline cudaError_t launch_kernel(bool cooperative, const char* name, int line, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                 void** pointers, std::size_t dynamic_bytes = 0, cudaStream_t = nullptr) {
    return launch_pointers(cooperative, name, line, kernel, grid, block, pointers, dynamic_bytes, std::index_sequence_for<Parameters...>());
}
inline cudaError_t launch_kernel(bool, const char*, int line, const void*, dim3, dim3, void**, std::size_t = 0, cudaStream_t = nullptr) {
    throw CudaError("not supported by the cpu device: a kernel launched through an untyped pointer in line %d", line);
}

template <class Kernel>
struct Launcher {
    const char* name;
    int line;
    const void* function;
    Kernel kernel;

    Configured<Kernel> config(dim3 grid, dim3 block, std::size_t dynamic_bytes = 0, cudaStream_t = nullptr) {
        return {name, line, function, kernel, grid, block, dynamic_bytes};
    }
};

template <class Kernel>
Launcher<Kernel> launcher(const char* name, int line, Kernel kernel) {
    return {name, line, nullptr, kernel};
}

// The same for a kernel that is reached through a variable.
template <class Kernel>
Launcher<Kernel> launcher(const char* name, int line, const void* function, Kernel kernel) {
    return {name, line, function, kernel};
}

}  // namespace stitch

// How many kernels this shared object has really run.
extern "C" __attribute__((weak, used, visibility("default"))) unsigned long long stitch_launch_count() { return stitch::launch_total; }

// The text of an error that the host code has not picked up with cudaGetLastError(), or null. It is cleared.
extern "C" __attribute__((weak, used, visibility("default"))) const char* stitch_take_error() {
    const cudaError_t error = stitch::device.last_error;
    stitch::device.last_error = cudaSuccess;
    return error == cudaSuccess ? nullptr : stitch::refusal[0] != 0 ? stitch::refusal : cudaGetErrorString(error);
}
