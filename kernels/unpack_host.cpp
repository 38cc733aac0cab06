#include "kernels/unpack.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void widen(const std::uint8_t* in, std::int64_t count, bool big, bool is_signed,
                                  std::int32_t* out) {
  const std::int64_t low = big ? 2 : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* const from = in + 3 * i;
    out[i] = number_of(from[low], from[1], from[2 - low], is_signed);
  }
}

/// Turns the bytes of each word round.
template <class Word>
[[gnu::always_inline]] inline void swap_words(const std::byte* in, std::int64_t count, std::byte* out) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, in + i * static_cast<std::int64_t>(sizeof word), sizeof word);
    if constexpr (sizeof word == 2) {
      word = __builtin_bswap16(word);
    } else if constexpr (sizeof word == 4) {
      word = __builtin_bswap32(word);
    } else {
      word = __builtin_bswap64(word);
    }
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof word), &word, sizeof word);
  }
}

PENSTOCK_VECTOR_CLONES void swap_bytes(const std::byte* in, std::int64_t count, std::int64_t bytes, std::byte* out) {
  if (bytes == 2) {
    swap_words<std::uint16_t>(in, count, out);
  } else if (bytes == 4) {
    swap_words<std::uint32_t>(in, count, out);
  } else {
    swap_words<std::uint64_t>(in, count, out);
  }
}

class unpack_host final : public operation {
 public:
  explicit unpack_host(unpack_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.numbers(arguments.extent);
    const void* const in = arguments.inputs[0];
    if (settings_.widens) {
      widen(static_cast<const std::uint8_t*>(in), count, settings_.big, settings_.is_signed,
            static_cast<std::int32_t*>(arguments.output));
    } else if (settings_.big) {
      swap_bytes(static_cast<const std::byte*>(in), count, settings_.bytes, static_cast<std::byte*>(arguments.output));
    } else if (count > 0) {
      std::memcpy(arguments.output, in, static_cast<std::size_t>(count * settings_.bytes));
    }
    return {};
  }

 private:
  const unpack_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_unpack_host(const operation_request& request) {
  return std::make_unique<unpack_host>(parse_unpack(request.settings, request.inputs[0]));
}

}  // namespace penstock
