extern "C" __global__ void reverse(const float* in, float* out) {
  extern __shared__ float tile[];
  const long long base = (long long)blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[base + threadIdx.x];
  __syncthreads();
  out[base + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
