// Warp operations: the lanes that a mask names meet and exchange values.
#pragma once
#include "state.h"

namespace stitch {

inline void complete(Warp& warp, Meeting& meeting, unsigned first_thread, unsigned running) {
    const unsigned arrived = meeting.arrived;
    stitch_note_meeting(first_thread / lanes, arrived);
    meeting.rounds[meeting.generation & 1].participants = arrived;
    meeting.generation++;
    meeting.readers += static_cast<unsigned>(__builtin_popcount(arrived));
    meeting.arrived = 0;
    warp.waiting &= ~arrived;
    for (unsigned rest = arrived; rest != 0; rest &= rest - 1) {
        const unsigned thread = first_thread + static_cast<unsigned>(__builtin_ctz(rest));
        if (thread != running) make_ready(thread);
    }
}

inline Meeting& find_meeting(Warp& warp, unsigned mask) {
    Meeting* unused = nullptr;
    for (unsigned i = 1; i < max_meetings; ++i) {
        Meeting& meeting = warp.meetings[i];
        if (meeting.mask == mask) return meeting;
        if (unused == nullptr && meeting.arrived == 0 && meeting.readers == 0) unused = &meeting;
    }
    if (unused == nullptr) abandon(cudaErrorNotSupported, "more than 32 masks are in use in one warp");
    unused->mask = mask;
    return *unused;
}

// Brings the lanes of `mask` that have not exited together, then gives `read(round, lane)` of each.
template <class T, class Read>
inline auto meet(unsigned mask, const T& value, WarpOp op, int line, Read read) {
    static_assert(sizeof(T) <= 32, "warp operations exchange at most 32 bytes per lane");
    Device& d = device;
    if (!d.in_kernel) abandon(cudaErrorLaunchFailure, "a warp operation was called outside of a kernel (line %d)", line);
    const unsigned thread = d.current;
    const unsigned lane = thread % lanes;
    Warp& warp = d.warps[thread / lanes];
    if (!(mask >> lane & 1u))
        abandon(cudaErrorLaunchFailure, "lane %u calls a warp operation (line %d) with mask 0x%08x, which leaves it out",
                lane, line, mask);
    Meeting& meeting = mask == 0xffffffffu ? warp.meetings[0] : find_meeting(warp, mask);
    if (meeting.arrived == 0) {
        meeting.op = op;
    } else if (meeting.op != op) {
        abandon(cudaErrorLaunchFailure,
                "lanes of mask 0x%08x call different warp operations at the same time (one of them in line %d)", mask, line);
    }
    Round& round = meeting.rounds[meeting.generation & 1];
    std::memcpy(round.values[lane], &value, sizeof(T));
    meeting.arrived |= 1u << lane;
    if (meeting.arrived == (mask & warp.live)) {
        warp.waiting |= 1u << lane;
        complete(warp, meeting, thread - lane, thread);
    } else {
        warp.waiting |= 1u << lane;
        wait_here(Wait::warp, line, mask);
    }
    auto result = read(round, lane);
    meeting.readers--;
    return result;
}

template <class T>
inline T value_of(const Round& round, unsigned lane) {
    T value;
    std::memcpy(static_cast<void*>(&value), round.values[lane], sizeof(T));
    return value;
}

// A value that a lane outside of the operation would have: undefined on a GPU, all bits set here.
template <class T>
inline T undefined_value() {
    T value;
    std::memset(static_cast<void*>(&value), 0xff, sizeof(T));
    return value;
}

// The lanes that reach the same __activemask() before the warp cannot go on without them: the most converged answer.
inline unsigned active_mask(int line) {
    Device& d = device;
    if (!d.in_kernel) return 1;
    d.active_waiting++;
    const unsigned thread = d.current;
    wait_here(Wait::active_mask, line, 0);
    return d.wait_mask[thread];
}

inline bool settle_active_masks() {
    Device& d = device;
    for (unsigned first = 0; first < d.threads; ++first) {
        if (d.wait[first] != Wait::active_mask) continue;
        const unsigned begin = first / lanes * lanes;
        unsigned mask = 0;
        for (unsigned t = begin; t < begin + lanes && t < d.threads; ++t)
            if (d.wait[t] == Wait::active_mask && d.wait_line[t] == d.wait_line[first]) mask |= 1u << (t - begin);
        for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
            const unsigned thread = begin + static_cast<unsigned>(__builtin_ctz(rest));
            d.wait_mask[thread] = mask;
            d.active_waiting--;
            make_ready(thread);
        }
        return true;
    }
    return false;
}

}  // namespace stitch
