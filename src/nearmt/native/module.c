/* Whether this processor can run the kernels. Compiled for any processor, unlike what it speaks of. */

#if defined(__x86_64__) && defined(__GNUC__)
#define KERNELS 1
#else
#define KERNELS 0
#endif

__attribute__((visibility("default"))) int supported(void);

int supported(void)
{
#if KERNELS
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}
