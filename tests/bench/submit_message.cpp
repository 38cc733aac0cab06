#include "tests/bench/submit_message.hpp"

#include <cstring>
#include <random>
#include <span>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t id_offset = 8;

std::string random_floats(std::size_t count) {
  std::mt19937 generator(20240607);
  std::normal_distribution<float> normal;
  std::string bytes(count * sizeof(float), '\0');
  for (std::size_t index = 0; index < count; ++index) {
    const float value = normal(generator);
    std::memcpy(bytes.data() + index * sizeof value, &value, sizeof value);
  }
  return bytes;
}

}  // namespace

submit_message::submit_message(std::uint32_t pipeline, std::size_t floats, std::uint32_t frames)
    : payload_(random_floats(floats * frames)) {
  wire::message_header header;
  header.type = wire::message_type::submit;
  header.pipeline = pipeline;
  header.frames = frames;
  header.tensors = 1;
  wire::tensor_header tensor;
  tensor.type = wire::float32_type;
  tensor.dimensions = 2;
  tensor.shape = {frames, static_cast<std::int64_t>(floats)};
  tensor.bytes = payload_.size();
  head_.resize(wire::part_bytes(1));
  const auto bytes = std::as_writable_bytes(std::span(head_));
  wire::encode(header, bytes);
  wire::encode(tensor, bytes.subspan(wire::header_bytes));
}

// Little-endian, as this machine is.
void submit_message::set_id(std::uint64_t id) noexcept {
  std::memcpy(head_.data() + id_offset, &id, sizeof id);
}

std::string hello_head() {
  wire::message_header header;
  header.type = wire::message_type::hello;
  std::string head(wire::header_bytes, '\0');
  wire::encode(header, std::as_writable_bytes(std::span(head)));
  return head;
}

std::string hello_body() {
  return wire::encode(wire::hello{"penstock-bench", ""});
}

}  // namespace penstock::bench
