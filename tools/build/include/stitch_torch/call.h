// The C form in which calls cross between Python and an extension; binding.h says what the codes mean.
#pragma once

#include <cstdint>

namespace stitch_torch __attribute__((visibility("hidden"))) {

struct Value {
  int64_t code;  // a letter of the signature; 'N' for None
  int64_t count;
  union {
    int64_t integer;
    double real;
    void* pointer;
  };
};
struct Function;
using Entry = int (*)(const Function* self, Value* arguments, Value** results, int64_t* result_count, char** error);
struct Function {
  const char* name;
  const char* doc;
  const char* signature;
  const char* arguments;  // a line per argument, "name" or "name=value" as given with py::arg; empty when not given
  Entry entry;
  const void* target;
};
}  // namespace stitch_torch
