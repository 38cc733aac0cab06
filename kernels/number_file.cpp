#include "kernels/number_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/half.hpp"

namespace penstock {
namespace {

template <class Number, class Convert>
void convert(std::span<const std::byte> bytes, std::span<float> into, Convert to_f32) {
  for (std::size_t at = 0; at < into.size(); ++at) {
    Number number{};
    std::memcpy(&number, bytes.data() + at * sizeof number, sizeof number);
    into[at] = to_f32(number);
  }
}

}  // namespace

number_file::number_file(std::string name, file_descriptor numbers, std::uint64_t offset, element_type type,
                         std::vector<std::int64_t> shape, std::string state)
    : name_(std::move(name)),
      numbers_(std::move(numbers)),
      offset_(offset),
      type_(type),
      shape_(std::move(shape)),
      state_(std::move(state)) {}

std::shared_ptr<const number_file> number_file::of(std::vector<std::int64_t> shape, std::span<const float> numbers) {
  file_descriptor memory(::memfd_create("numbers", MFD_CLOEXEC));
  const auto bytes = std::as_bytes(numbers);
  if (!memory || !write_all(memory.number(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    throw std::system_error(errno, std::generic_category(), "could not keep numbers in memory");
  }
  return std::make_shared<const number_file>("numbers", std::move(memory), 0, element_type::f32, std::move(shape), "");
}

std::int64_t number_file::count() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape_) {
    count *= extent;
  }
  return count;
}

std::string number_file::text() const {
  return tensor_spec{.type = type_, .shape = shape_}.text();
}

void number_file::read(std::int64_t first, std::span<float> into) const {
  constexpr std::size_t piece = std::size_t{1} << 20U;
  const std::size_t element = size_of(type_);
  std::vector<std::byte> bytes(std::min(piece, into.size()) * element);
  for (std::size_t done = 0; done < into.size();) {
    const std::size_t count = std::min(piece, into.size() - done);
    const std::uint64_t from = offset_ + (static_cast<std::uint64_t>(first) + done) * element;
    for (std::size_t filled = 0; filled < count * element;) {
      const ssize_t got = ::pread(numbers_.number(), bytes.data() + filled, count * element - filled,
                                  static_cast<off_t>(from + filled));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        throw number_file_error("\"" + name_ + "\": " +
                                (got == 0 ? "was cut while it was read: write a new file beside it, and rename that"
                                          : "can't be read: " + std::generic_category().message(errno)));
      }
      filled += static_cast<std::size_t>(got);
    }
    const std::span<float> part = into.subspan(done, count);
    switch (type_) {
      case element_type::f16:
        convert<half_bits>(bytes, part, [](half_bits number) { return to_float(number); });
        break;
      case element_type::f64:
        convert<double>(bytes, part, [](double number) { return static_cast<float>(number); });
        break;
      default:
        std::memcpy(part.data(), bytes.data(), part.size_bytes());
    }
    if (const auto wrong =
            std::find_if_not(part.begin(), part.end(), [](float number) { return std::isfinite(number); });
        wrong != part.end()) {
      const std::int64_t index = first + static_cast<std::int64_t>(done) + (wrong - part.begin());
      throw number_file_error("\"" + name_ + "\": number " + std::to_string(index) +
                              " (counted from 0) is not finite in f32");
    }
    done += count;
  }
}

std::shared_ptr<const std::byte> number_file::map_from(int descriptor, int protection) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t before = offset_ % page;
  const std::size_t bytes = static_cast<std::size_t>(count()) * size_of(type_) + before;
  void* const mapped = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, static_cast<off_t>(offset_ - before));
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  return {static_cast<const std::byte*>(mapped) + before,
          [mapped, bytes](const std::byte* /*numbers*/) { ::munmap(mapped, bytes); }};
}

std::shared_ptr<const std::byte> number_file::map() const {
  std::shared_ptr<const std::byte> mapped = map_from(numbers_.number(), PROT_READ);
  if (mapped == nullptr) {
    throw number_file_error("\"" + name_ + "\": can't be mapped: " + std::generic_category().message(errno));
  }
  return mapped;
}

std::shared_ptr<const std::byte> number_file::map_writable() const {
  const file_descriptor writable(
      ::open(("/proc/self/fd/" + std::to_string(numbers_.number())).c_str(), O_RDWR | O_CLOEXEC));
  return writable ? map_from(writable.number(), PROT_READ | PROT_WRITE) : nullptr;
}

}  // namespace penstock
