template <class T>
__global__ void agc(const T* in, T* out, long long frames, long long n0, float gain) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < frames * n0)
    out[i] = in[i] * gain;
}
