#include "daemon/device/cuda/cuda_memory.hpp"

#include <string_view>
#include <utility>

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace penstock {

/// What is called of the driver's library.
struct cuda_driver {
  decltype(&cuInit) init = nullptr;
  decltype(&cuDeviceGet) device = nullptr;
  decltype(&cuDeviceGetUuid) uuid = nullptr;
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free_addresses = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemExportToShareableHandle) to_descriptor = nullptr;
};

namespace {

template <class Function>
bool find(void* library, const char* name, Function& found) {
  found = reinterpret_cast<Function>(::dlsym(library, name));
  return found != nullptr;
}

// nullptr where the library is not there, or too old. It is never closed: the runtime has it open as well.
const cuda_driver* load_driver() {
  static const cuda_driver* const loaded = []() -> const cuda_driver* {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static cuda_driver calls;
    const bool complete =
        library != nullptr && find(library, "cuInit", calls.init) && find(library, "cuDeviceGet", calls.device) &&
        find(library, "cuDeviceGetUuid_v2", calls.uuid) && find(library, "cuDeviceGetAttribute", calls.attribute) &&
        find(library, "cuGetErrorName", calls.error_name) &&
        find(library, "cuMemGetAllocationGranularity", calls.granularity) &&
        find(library, "cuMemAddressReserve", calls.reserve) &&
        find(library, "cuMemAddressFree", calls.free_addresses) && find(library, "cuMemCreate", calls.create) &&
        find(library, "cuMemRelease", calls.release) && find(library, "cuMemMap", calls.map) &&
        find(library, "cuMemUnmap", calls.unmap) && find(library, "cuMemSetAccess", calls.set_access) &&
        find(library, "cuMemExportToShareableHandle", calls.to_descriptor);
    return complete && calls.init(0) == CUDA_SUCCESS ? &calls : nullptr;
  }();
  return loaded;
}

CUmemAllocationProp properties_of(int device) noexcept {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

std::string hexadecimal(const CUuuid& uuid) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char each : uuid.bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text += digits[byte >> 4U];
    text += digits[byte & 0xFU];
  }
  return text;
}

/// Physical memory, mapped into the addresses of this process, and a descriptor of it.
class mapped_memory final : public exported_memory {
 public:
  mapped_memory(const cuda_driver& driver, int device, std::size_t bytes) : exported_memory(bytes), driver_(driver) {
    const CUmemAllocationProp properties = properties_of(device);
    require(driver_.create(&memory_, bytes, &properties, 0), "made");
    created_ = true;
    require(driver_.to_descriptor(&descriptor_, memory_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "exported");
    ::fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
    require(driver_.reserve(&address_, bytes, 0, 0, 0), "given an address");
    reserved_ = true;
    require(driver_.map(address_, bytes, 0, memory_, 0), "mapped");
    mapped_ = true;
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    require(driver_.set_access(address_, bytes, &access, 1), "opened to the device");
  }
  ~mapped_memory() override { give_up(); }

  [[nodiscard]] std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  [[nodiscard]] int descriptor() const noexcept override { return descriptor_; }
  void close_descriptor() noexcept override {
    if (const int open = std::exchange(descriptor_, -1); open >= 0) {
      ::close(open);
    }
  }

 private:
  void require(CUresult result, const char* done) {
    if (result != CUDA_SUCCESS) {
      give_up();
      const char* name = nullptr;
      static_cast<void>(driver_.error_name(result, &name));
      throw device_error("device memory of " + std::to_string(bytes()) + " bytes to share can't be " + done + ": " +
                         (name != nullptr ? name : "unknown error"));
    }
  }

  void give_up() noexcept {
    close_descriptor();
    if (std::exchange(mapped_, false)) {
      static_cast<void>(driver_.unmap(address_, bytes()));
    }
    if (std::exchange(reserved_, false)) {
      static_cast<void>(driver_.free_addresses(address_, bytes()));
    }
    if (std::exchange(created_, false)) {
      static_cast<void>(driver_.release(memory_));
    }
  }

  const cuda_driver& driver_;
  CUmemGenericAllocationHandle memory_ = 0;
  CUdeviceptr address_ = 0;
  int descriptor_ = -1;
  bool created_ = false;
  bool reserved_ = false;
  bool mapped_ = false;
};

}  // namespace

std::optional<cuda_exporter> cuda_exporter::open(int device) {
  const cuda_driver* const driver = load_driver();
  if (driver == nullptr) {
    return std::nullopt;
  }
  CUdevice handle = 0;
  CUuuid uuid{};
  int exports = 0;
  std::size_t page = 0;
  const CUmemAllocationProp properties = properties_of(device);
  const bool can = driver->device(&handle, device) == CUDA_SUCCESS && driver->uuid(&uuid, handle) == CUDA_SUCCESS &&
                   driver->attribute(&exports, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                     handle) == CUDA_SUCCESS &&
                   exports != 0 &&
                   driver->granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
                   page != 0;
  return can ? std::optional(cuda_exporter(*driver, device, hexadecimal(uuid), page)) : std::nullopt;
}

std::unique_ptr<exported_memory> cuda_exporter::make(std::size_t bytes) const {
  return std::make_unique<mapped_memory>(*driver_, device_, (bytes + page_ - 1) / page_ * page_);
}

}  // namespace penstock
