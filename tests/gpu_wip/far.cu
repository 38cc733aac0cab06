extern "C" __global__ void far(const float* in, float* out) {
  out[(1ll << 40) + threadIdx.x] = in[0];
}
