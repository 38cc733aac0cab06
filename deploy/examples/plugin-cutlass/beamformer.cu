// A plug-in for penstockd by templates of CUTLASS: a beamformer that sums the power of each beam. One kernel forms the
// beams of all frames of a batch and sums their powers; beamformer.cuh says how.
//
//   input    cf32 [antennas, samples]
//   weights  values.weights: real numbers [beams, antennas, 2], from a .npy file
//   output   f32 [beams, samples / window]: the sums of values.window samples each; without it, of all samples
//
// What it does on the host, a kernel of users' can't do by itself: it arranges the weights, copies them to the device,
// and makes CUTLASS's parameters. On the host backend the operator is a plain loop.
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <penstock/plugin.h>

#include "beamformer.cuh"

namespace {

using beamformer::problem;

struct device_memory_owner {
  void operator()(float* memory) const { cudaFree(memory); }
};

struct beamformer_operator {
  problem shape;
  std::vector<float> weights;  // on the host: [beams, antennas] of (re, im)
  std::unique_ptr<float, device_memory_owner> arranged;
  beamformer::arguments arguments{};
  cudaKernel_t kernel = nullptr;
};

// Returns 0, or not, and says why.
int32_t read_problem(const ps_params* params, const ps_spec* in, uint32_t ins, problem* shape, ps_error* error) {
  constexpr int64_t most = int64_t{1} << 28;
  if (ins != 1 || in->code != PS_COMPLEX || in->bits != 64 || in->rank != 2 || in->variable || ps_elements(in) > most) {
    return ps_fail(error, "from", "beamformer takes one input: cf32 of [antennas, samples], both fixed");
  }
  const int64_t antennas = in->extent[0];
  const int64_t samples = in->extent[1];
  if (antennas % beamformer::antennas_multiple != 0) {
    return ps_fail(error, "from", "the number of antennas must be a multiple of 4: add some with weights of 0");
  }
  const int64_t window = ps_integer(params, "window", samples);
  if (window < 1 || window % beamformer::samples_multiple != 0 || samples % window != 0) {
    return ps_fail(error, "window", "must be an even number that divides the samples of a frame");
  }
  uint64_t count = 0;
  if (params->numbers(params, "weights", &count) == nullptr || count == 0 || count % (2 * antennas) != 0) {
    return ps_fail(error, "weights", "must be a .npy file of real numbers, [beams, antennas, 2]");
  }
  if (count > static_cast<uint64_t>(most)) {
    return ps_fail(error, "weights", "has more than 2^28 numbers");
  }
  *shape = {static_cast<int32_t>(count / (2 * antennas)), static_cast<int32_t>(antennas), static_cast<int32_t>(samples),
            static_cast<int32_t>(window)};
  return 0;
}

int32_t infer(const ps_params* params, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs, ps_needs*,
              ps_error* error) {
  problem shape;
  if (read_problem(params, in, ins, &shape, error) != 0) {
    return 1;
  }
  out->code = PS_FLOAT;
  out->bits = 32;
  out->rank = 2;
  out->extent[0] = shape.beams;
  out->extent[1] = shape.windows();
  *outs = 1;
  return 0;
}

cudaError_t prepare(beamformer_operator& self) {
  std::vector<float> arranged(static_cast<size_t>(self.shape.weights()));
  beamformer::arrange(self.shape, self.weights.data(), arranged.data());
  float* memory = nullptr;
  cudaError_t failed = cudaMalloc(&memory, arranged.size() * sizeof(float));
  self.arranged.reset(memory);
  if (failed == cudaSuccess) {
    failed = cudaMemcpy(memory, arranged.data(), arranged.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  if (failed == cudaSuccess) {
    failed = beamformer::allow_shared_bytes();
  }
  self.arguments = beamformer::arguments_of(self.shape, memory);
  return failed != cudaSuccess ? failed
                               : cudaGetKernel(&self.kernel, reinterpret_cast<const void*>(&beamformer::sum_powers));
}

int32_t make(const ps_params* params, const ps_spec* in, uint32_t ins, int64_t max_frames, int32_t device, void** op,
             ps_needs*, ps_error* error) {
  try {
    auto made = std::make_unique<beamformer_operator>();
    if (read_problem(params, in, ins, &made->shape, error) != 0) {
      return 1;
    }
    if (made->shape.blocks(max_frames) > INT32_MAX) {
      return ps_fail(error, "window", "makes too many sums for one batch");
    }
    uint64_t count = 0;
    const double* const weights = params->numbers(params, "weights", &count);
    made->weights.assign(weights, weights + count);
    if (device >= 0) {
      if (const cudaError_t failed = prepare(*made); failed != cudaSuccess) {
        return ps_fail(error, "", cudaGetErrorString(failed));
      }
    }
    *op = made.release();
    return 0;
  } catch (const std::bad_alloc&) {  // no exception may leave the plug-in
    return ps_fail(error, "", "no memory");
  }
}

void run_on_host(const beamformer_operator& self, const ps_run* run) {
  const problem& shape = self.shape;
  const float* const samples = static_cast<const float*>(run->in[0]);
  float* power = static_cast<float*>(run->out[0]);
  for (int64_t frame = 0; frame < run->frames; ++frame) {
    const float* const first = samples + 2 * frame * shape.antennas * shape.samples;
    for (int32_t beam = 0; beam < shape.beams; ++beam) {
      const float* const weights = self.weights.data() + 2 * int64_t{beam} * shape.antennas;
      for (int32_t window = 0; window < shape.windows(); ++window) {
        double sum = 0;
        for (int32_t t = window * shape.window; t < (window + 1) * shape.window; ++t) {
          float re = 0;
          float im = 0;
          for (int32_t a = 0; a < shape.antennas; ++a) {
            const float* const x = first + 2 * (int64_t{a} * shape.samples + t);
            re += weights[2 * a] * x[0] - weights[2 * a + 1] * x[1];
            im += weights[2 * a] * x[1] + weights[2 * a + 1] * x[0];
          }
          sum += double{re} * re + double{im} * im;
        }
        *power++ = static_cast<float>(sum);
      }
    }
  }
}

const char* run(void* op, const ps_run* run) {
  const beamformer_operator& self = *static_cast<const beamformer_operator*>(op);
  if (run->queue == nullptr) {
    run_on_host(self, run);
    return nullptr;
  }
  beamformer::arguments arguments = self.arguments;
  arguments.samples = static_cast<const float*>(run->in[0]);
  arguments.power = static_cast<float*>(run->out[0]);
  void* const args[] = {&arguments};
  const size_t sizes[] = {sizeof arguments};
  const uint32_t grid[] = {static_cast<uint32_t>(self.shape.blocks(run->frames)), 1, 1};
  const uint32_t block[] = {beamformer::threads, 1, 1};
  return run->add(run->queue, self.kernel, grid, block, beamformer::shared_bytes, args, sizes, 1) == 0
             ? nullptr
             : "BEAMFORMER_NOT_ADDED";
}

void drop(void* op) {
  delete static_cast<beamformer_operator*>(op);
}

int32_t infer_queued(const ps_params* params, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs,
                     ps_needs* needs, ps_error* error) {
  needs->flags = PS_QUEUES;  // run adds its kernel and does nothing else with the stream
  return infer(params, in, ins, out, outs, needs, error);
}

}  // namespace

const ps_operator* penstock_plugin_v1(uint32_t index) {
  static const ps_operator beamformer = {
      PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "beamformer", infer_queued, make, run, drop};
  return index == 0 ? &beamformer : nullptr;
}
