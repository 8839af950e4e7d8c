// The order in which the threads and blocks of a launch run: any is allowed, and a race shows as a difference.
// The environment variable STITCHCUDA_SCHEDULE chooses: `descending`, or `warps:N`, where warps have random priorities
// drawn from N and the first among them runs as far as it can. Otherwise ascending.
#pragma once
#include <cstdlib>

#include "state.h"

namespace stitch {

inline void choose_schedule() {
    Device& d = device;
    const char* said = std::getenv("STITCHCUDA_SCHEDULE");
    d.schedule = said == nullptr ? Schedule::ascending
                 : std::strcmp(said, "descending") == 0 ? Schedule::descending
                 : std::strncmp(said, "warps:", 6) == 0 ? Schedule::warps
                                                        : Schedule::ascending;
    if (d.schedule == Schedule::ascending) return;
    const unsigned warps = (d.threads + lanes - 1) / lanes;
    unsigned in_order[max_threads / lanes];
    for (unsigned w = 0; w < warps; ++w) in_order[w] = d.schedule == Schedule::descending ? warps - 1 - w : w;
    if (d.schedule == Schedule::warps) {
        unsigned long long state = std::strtoull(said + 6, nullptr, 10) * 2654435761ull + 1;
        for (unsigned w = warps; w > 1; --w) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            const unsigned other = static_cast<unsigned>((state >> 33) % w), kept = in_order[w - 1];
            in_order[w - 1] = in_order[other];
            in_order[other] = kept;
        }
    }
    unsigned at = 0;
    for (unsigned rank = 0; rank < warps; ++rank) {
        const unsigned first = in_order[rank] * lanes, last = first + lanes < d.threads ? first + lanes : d.threads;
        d.warp_rank[in_order[rank]] = rank;
        d.warp_at[rank] = in_order[rank];
        for (unsigned i = 0; i < last - first; ++i)
            d.order[at++] = static_cast<unsigned short>(d.schedule == Schedule::descending ? last - 1 - i : first + i);
    }
}

}  // namespace stitch
