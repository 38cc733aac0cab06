// CUDA's driver library without a GPU: what the daemon and its clients call of it to share device memory, and nothing
// else. Device memory is a file without a name, its physical handle a descriptor of that, so that processes share it as
// they do on a GPU. FAKE_CUDA_UUID, a digit, makes it another device.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::size_t page = std::size_t{2} << 20U;

void* at(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(address);
}
CUresult done(bool good) noexcept {
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return done(ordinal == 0);
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice /*device*/) {
  const char* const digit = std::getenv("FAKE_CUDA_UUID");
  std::memset(uuid->bytes, digit != nullptr ? digit[0] : 7, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute /*which*/, CUdevice /*device*/) {
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice /*device*/) {
  static int one = 0;
  *context = reinterpret_cast<CUcontext>(&one);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext /*context*/) {
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  return cuDevicePrimaryCtxRetain(context, 0);
}
CUresult cuCtxSynchronize() {
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned /*flags*/) {
  static int one = 0;
  *stream = reinterpret_cast<CUstream>(&one);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream /*stream*/) {
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* /*properties*/,
                                       CUmemAllocationGranularity_flags /*which*/) {
  *bytes = page;
  return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp* /*properties*/,
                     unsigned long long /*flags*/) {
  const int file = ::memfd_create("fake device memory", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = static_cast<CUmemGenericAllocationHandle>(file);
  return CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* descriptor, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType /*type*/, unsigned long long /*flags*/) {
  const int exported = ::dup(static_cast<int>(handle));
  std::memcpy(descriptor, &exported, sizeof exported);
  return done(exported >= 0);
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                                        CUmemAllocationHandleType /*type*/) {
  const int imported = ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)));
  *handle = static_cast<CUmemGenericAllocationHandle>(imported);
  return done(imported >= 0);
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return done(::close(static_cast<int>(handle)) == 0);
}
CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t /*alignment*/, CUdeviceptr /*where*/,
                             unsigned long long /*flags*/) {
  void* const reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *address = reinterpret_cast<CUdeviceptr>(reserved);
  return reserved != MAP_FAILED ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  return done(::munmap(at(address), bytes) == 0);
}
CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long /*flags*/) {
  return done(::mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle),
                     static_cast<off_t>(offset)) != MAP_FAILED);
}
CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* /*access*/,
                        std::size_t /*count*/) {
  return done(::mprotect(at(address), bytes, PROT_READ | PROT_WRITE) == 0);
}
CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  return done(::mmap(at(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream /*stream*/) {
  std::memcpy(at(to), at(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  std::memcpy(to, at(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  std::memcpy(at(to), from, bytes);
  return CUDA_SUCCESS;
}

}  // extern "C"
