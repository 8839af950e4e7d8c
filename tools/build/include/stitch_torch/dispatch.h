// AT_DISPATCH_*: a switch over the element type that names it scalar_t.
#pragma once

#include "scalar_type.h"

#define STITCH_CASE(enum_type, ...)                                        \
  case enum_type: {                                                        \
    using scalar_t [[maybe_unused]] = ::c10::ScalarTypeToCPPTypeT<enum_type>; \
    return __VA_ARGS__();                                                  \
  }
#define AT_DISPATCH_CASE(enum_type, ...) STITCH_CASE(enum_type, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                              \
  [&] {                                                                                                  \
    const ::c10::ScalarType stitch_type = (TYPE);                                                        \
    switch (stitch_type) {                                                                               \
      __VA_ARGS__                                                                                        \
      default:                                                                                           \
        ::c10::stitch_detail::fail(::c10::stitch_detail::Raised::NotImplementedError, "", '"', NAME,       \
                                   "\" not implemented for '", stitch_type, "'");                        \
    }                                                                                                    \
  }()
#define AT_DISPATCH_CASE_FLOATING_TYPES(...)              \
  STITCH_CASE(::c10::ScalarType::Double, __VA_ARGS__)     \
  STITCH_CASE(::c10::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)        \
  STITCH_CASE(::c10::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)  \
  STITCH_CASE(::c10::ScalarType::Half, __VA_ARGS__)   \
  STITCH_CASE(::c10::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)        \
  STITCH_CASE(::c10::ScalarType::Byte, __VA_ARGS__) \
  STITCH_CASE(::c10::ScalarType::Char, __VA_ARGS__) \
  STITCH_CASE(::c10::ScalarType::Int, __VA_ARGS__)  \
  STITCH_CASE(::c10::ScalarType::Long, __VA_ARGS__) \
  STITCH_CASE(::c10::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) STITCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...)                     \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)        \
                                     STITCH_CASE(T1, __VA_ARGS__) STITCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) STITCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...)                     \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)        \
                                     STITCH_CASE(T1, __VA_ARGS__) STITCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                               \
                     AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) STITCH_CASE(T1, __VA_ARGS__) \
                         STITCH_CASE(T2, __VA_ARGS__) STITCH_CASE(T3, __VA_ARGS__))
