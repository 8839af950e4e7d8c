// From an address in a shared object to the candidate's file and line, by asking addr2line.
#pragma once
#include <cstdio>
#include <cstring>

namespace stitch {

inline const char* base_name(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

inline bool in_a_header(const char* path) { return std::strstr(path, "/include/") != nullptr || path[0] == '?'; }

// The innermost inlined place that lies in the candidate's own text: `name.cu:12`.
inline void describe_place(const char* object, unsigned long pc, char* text, std::size_t bytes) {
    std::snprintf(text, bytes, "an unknown line");
    char command[1400], line[1024];
    std::snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%lx 2>/dev/null", object, pc - 1);
    std::FILE* answer = popen(command, "r");
    if (answer == nullptr) return;
    while (std::fgets(line, sizeof line, answer) != nullptr) {
        if (in_a_header(line)) continue;
        line[std::strcspn(line, " \n")] = 0;
        std::snprintf(text, bytes, "%s", base_name(line));
        break;
    }
    pclose(answer);
}

}  // namespace stitch
