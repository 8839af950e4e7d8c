// Stacks for suspended CUDA threads and the switch between them.
// x86-64: six pushes and pops; elsewhere ucontext, which costs a system call per switch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#if defined(__x86_64__) && !defined(STITCH_UCONTEXT)
#define STITCH_SWITCH_X86 1
#else
#include <ucontext.h>
#endif

namespace stitch {

constexpr std::size_t stack_bytes = 256 * 1024;  // of address space; a CUDA thread may have 512 KB of local memory
constexpr std::size_t guard_bytes = 4096;

#if defined(STITCH_SWITCH_X86)

struct Context {
    void* stack_pointer;
};

__attribute__((naked, noinline, visibility("hidden"))) inline void switch_stack(void** /*save*/, void* /*load*/) {
    asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}

inline void swap_context(Context& from, Context& to) { switch_stack(&from.stack_pointer, to.stack_pointer); }

inline void fresh_context(Context& context, unsigned char* top, void (*entry)()) {
    auto** slot = reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t(15));
    *--slot = nullptr;                                  // where entry() would return to; it never does
    *--slot = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--slot = nullptr;      // rbp rbx r12 r13 r14 r15
    context.stack_pointer = slot;
}

#else

struct Context {
    ucontext_t saved;
};

inline void swap_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }

inline void fresh_context(Context& context, unsigned char* top, void (*entry)()) {
    getcontext(&context.saved);
    context.saved.uc_stack.ss_sp = top - stack_bytes / 2;
    context.saved.uc_stack.ss_size = stack_bytes / 2;
    context.saved.uc_link = nullptr;
    makecontext(&context.saved, entry, 0);
}

#endif

// One mapping per stack, with a page below it that faults on overflow. Never unmapped: the pool is reused.
// `number` staggers the tops, or all stacks would compete for the same few cache sets.
inline unsigned char* new_stack_top(unsigned number) {
    void* base = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    mprotect(base, guard_bytes, PROT_NONE);
    return static_cast<unsigned char*>(base) + guard_bytes + stack_bytes - (number * 13 % 64) * 64;
}

}  // namespace stitch
