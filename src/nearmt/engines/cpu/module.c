/* Whether kernels may be called; compiled for any processor, unlike kernels. The signatures of these two functions never
   change, so that every version of nearmt can ask the kernels of every other version. */

#include "kernels.h"

#define ASKED __attribute__((visibility("default")))

ASKED int supported(void);
ASKED const char *declarations(void);

/* Whether this processor can run the kernels. */
int supported(void)
{
#if NEARMT_KERNELS
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

/* The declarations of kernels.h at compile time. */
const char *declarations(void) { return declared; }
