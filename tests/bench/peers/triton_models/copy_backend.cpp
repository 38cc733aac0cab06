// Triton's best case: a backend that copies half of its input to its output on the host, as many bytes as a spectrum
// has, and uses no GPU. What it takes is Triton's own overhead. README.md says how to build it.

#include <cstdint>
#include <cstring>

#include <triton/core/tritonbackend.h>

namespace {

// The first error ends the request, which is answered with it.
TRITONSERVER_Error* copy(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input = nullptr;
  if (auto* error = TRITONBACKEND_RequestInput(request, "x", &input); error != nullptr) {
    return error;
  }
  const int64_t* shape = nullptr;
  uint32_t dimensions = 0;
  uint64_t bytes = 0;
  uint32_t buffers = 0;
  if (auto* error = TRITONBACKEND_InputProperties(input, nullptr, nullptr, &shape, &dimensions, &bytes, &buffers);
      error != nullptr) {
    return error;
  }
  if (dimensions != 2 || buffers != 1) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "one buffer of [frames, samples] is expected");
  }
  const void* source = nullptr;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  if (auto* error = TRITONBACKEND_InputBuffer(input, 0, &source, &bytes, &type, &id); error != nullptr) {
    return error;
  }
  const int64_t output_shape[] = {shape[0], shape[1] / 2 + 1};
  const uint64_t output_bytes = static_cast<uint64_t>(output_shape[0] * output_shape[1]) * sizeof(float);
  TRITONBACKEND_Output* output = nullptr;
  if (auto* error = TRITONBACKEND_ResponseOutput(response, &output, "y", TRITONSERVER_TYPE_FP32, output_shape, 2);
      error != nullptr) {
    return error;
  }
  void* target = nullptr;
  type = TRITONSERVER_MEMORY_CPU;
  if (auto* error = TRITONBACKEND_OutputBuffer(output, &target, output_bytes, &type, &id); error != nullptr) {
    return error;
  }
  std::memcpy(target, source, output_bytes < bytes ? output_bytes : bytes);
  return nullptr;
}

}  // namespace

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* /*instance*/,
                                                       TRITONBACKEND_Request** requests, const uint32_t count) {
  for (uint32_t at = 0; at < count; ++at) {
    TRITONBACKEND_Response* response = nullptr;
    if (auto* error = TRITONBACKEND_ResponseNew(&response, requests[at]); error != nullptr) {
      return error;
    }
    auto* const error = copy(requests[at], response);
    TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    TRITONBACKEND_RequestRelease(requests[at], TRITONSERVER_REQUEST_RELEASE_ALL);
  }
  return nullptr;
}

}  // extern "C"
