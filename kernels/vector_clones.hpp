#pragma once

/// Before a loop's function: the compiler also makes it for AVX2, and the loader takes that one where the processor has
/// it. Not under sanitizers, whose run time does not exist yet when the loader chooses. Results are the same either
/// way: nothing is contracted to fused multiply-adds.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PENSTOCK_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define PENSTOCK_VECTOR_CLONES
#endif
