#pragma once

/// For functions that both kernels and the host call.
#ifdef __CUDACC__
#define PENSTOCK_HOST_DEVICE __host__ __device__
#else
#define PENSTOCK_HOST_DEVICE
#endif

/// For functions that are one loop: compiled for AVX2 and AVX-512 too; the loader picks the widest that the processor
/// supports. Off under sanitizers, whose run time is not ready when the loader picks. Results are the same in all
/// versions, since nothing is contracted to fused multiply-adds (-ffp-contract=off), except for the last bits of sums
/// that a pragma allows to be taken in lanes.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PENSTOCK_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PENSTOCK_VECTOR_CLONES
#endif
