/* What is called before any kernel: whether they may be called. Compiled for any processor, unlike kernels. These two
   functions never change, so that every version of nearmt can ask the kernels of every other. */

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

/* What kernels.h declared when they were compiled. */
const char *declarations(void) { return declared; }
