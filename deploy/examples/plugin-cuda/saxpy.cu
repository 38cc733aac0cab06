// A plug-in for penstockd on a GPU: out = a x + y. One operator puts its kernel into the daemon's queue, the other
// launches it on the daemon's stream, as libraries do.
#include <new>

#include <cuda_runtime.h>
#include <penstock/plugin.h>

namespace {

__global__ void saxpy_kernel(const float* x, const float* y, float* out, long long count, float a) {
  const long long at = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (at < count) {
    out[at] = __fmaf_rn(a, x[at], y[at]);
  }
}

constexpr unsigned threads = 256;

struct saxpy {
  ps_spec spec;
  float a;
  cudaKernel_t kernel;
};

int32_t infer_flags(const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs, ps_needs* needs, ps_error* error,
                    uint32_t flags) {
  if (ins != 2 || in[0].code != PS_FLOAT || in[0].bits != 32 || in[1].code != PS_FLOAT || in[1].bits != 32 ||
      ps_elements(&in[0]) != ps_elements(&in[1])) {
    return ps_fail(error, "from", "saxpy takes two inputs of f32, of one shape");
  }
  *out = in[0];
  *outs = 1;
  needs->flags = flags;
  return 0;
}

int32_t infer_queued(const ps_params*, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs, ps_needs* needs,
                     ps_error* error) {
  return infer_flags(in, ins, out, outs, needs, error, PS_SINGLE_PASS | PS_QUEUES);
}

int32_t infer_streamed(const ps_params*, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs, ps_needs* needs,
                       ps_error* error) {
  return infer_flags(in, ins, out, outs, needs, error, PS_SINGLE_PASS);
}

int32_t make(const ps_params* params, const ps_spec* in, uint32_t, int64_t, int32_t device, void** op, ps_needs*,
             ps_error* error) {
  if (device < 0) {
    return ps_fail(error, "", "saxpy runs on a GPU alone");
  }
  saxpy* const made = new (std::nothrow) saxpy{in[0], static_cast<float>(ps_number(params, "a", 1.0)), nullptr};
  if (made == nullptr) {
    return ps_fail(error, "", "no memory");
  }
  const cudaError_t found = cudaGetKernel(&made->kernel, reinterpret_cast<const void*>(&saxpy_kernel));
  if (found != cudaSuccess) {
    delete made;
    return ps_fail(error, "", cudaGetErrorString(found));
  }
  *op = made;
  return 0;
}

unsigned blocks_for(long long count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

const char* run_queued(void* op, const ps_run* run) {
  const saxpy& self = *static_cast<const saxpy*>(op);
  long long count = run->frames * ps_pitch(&self.spec, run);
  const float* x = static_cast<const float*>(run->in[0]);
  const float* y = static_cast<const float*>(run->in[1]);
  float* out = static_cast<float*>(run->out[0]);
  float a = self.a;
  void* const args[] = {&x, &y, &out, &count, &a};
  const size_t sizes[] = {sizeof x, sizeof y, sizeof out, sizeof count, sizeof a};
  const uint32_t grid[] = {blocks_for(count), 1, 1};
  const uint32_t block[] = {threads, 1, 1};
  return run->add(run->queue, self.kernel, grid, block, 0, args, sizes, 5) == 0 ? nullptr : "SAXPY_NOT_ADDED";
}

const char* run_streamed(void* op, const ps_run* run) {
  const saxpy& self = *static_cast<const saxpy*>(op);
  const long long count = run->frames * ps_pitch(&self.spec, run);
  saxpy_kernel<<<blocks_for(count), threads, 0, static_cast<cudaStream_t>(run->stream)>>>(
      static_cast<const float*>(run->in[0]), static_cast<const float*>(run->in[1]), static_cast<float*>(run->out[0]),
      count, self.a);
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorName(launched);
}

void drop(void* op) {
  delete static_cast<saxpy*>(op);
}

const ps_operator operators[] = {
    {PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "saxpy", infer_queued, make, run_queued, drop},
    {PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "saxpy_stream", infer_streamed, make, run_streamed, drop}};

}  // namespace

const ps_operator* penstock_plugin_v1(uint32_t index) {
  return index < 2 ? &operators[index] : nullptr;
}
