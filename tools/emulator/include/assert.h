// Like the C library's: no guard, NDEBUG decides at each inclusion. In a kernel a failed assertion ends the launch.
#include_next <assert.h>  // torch's headers call __assert_fail by name
#include <stitch/assert.h>
#undef assert
#ifdef NDEBUG
#define assert(expression) ((void)0)
#else
#define assert(expression) ((expression) ? (void)0 : ::stitch::assertion_failed(#expression, __LINE__))
#endif
