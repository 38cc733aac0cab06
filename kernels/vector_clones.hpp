#pragma once

/// Before a loop's function: the compiler also makes it for AVX2 and for AVX-512, and the loader takes the widest that
/// the processor has. Not under sanitizers, whose run time does not exist yet when the loader chooses. Nothing is
/// contracted to fused multiply-adds (-ffp-contract=off), so results are the same either way, but for the last bits of
/// a sum that a pragma allows to be taken in lanes.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PENSTOCK_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PENSTOCK_VECTOR_CLONES
#endif
