#include "client/cpp/reply_reader.hpp"

#include <algorithm>
#include <utility>

#include "client/cpp/wire_dtype.hpp"
#include "proto/control.hpp"

namespace penstock::link {
namespace {

/// What a result's views look at.
struct received_message {
  std::vector<zmq::message_t> parts;
  std::shared_ptr<const pipeline_info> pipeline;
};

/// Whether the tensor is `frames` of what the output is; a variable one may be anything up to the most.
bool is_shape_of(const wire::tensor_header& tensor, std::uint32_t frames, const tensor_info& output) {
  const std::span<const std::int64_t> extents = tensor.extents();
  if (extents.size() != output.shape.size() + 1 || extents[0] != std::int64_t{frames}) {
    return false;
  }
  const std::span<const std::int64_t> frame = extents.subspan(1);
  for (std::size_t axis = 0; axis < frame.size(); ++axis) {
    const bool as_it_comes = axis == 0 && output.variable;
    if (as_it_comes ? frame[axis] > output.shape[axis] : frame[axis] != output.shape[axis]) {
      return false;
    }
  }
  return true;
}

std::optional<tensor_view> read_tensor(const wire::message_header& header, const received_message& from,
                                       std::size_t index) {
  wire::tensor_header tensor;
  const std::span<const std::byte> bytes = bytes_of(from.parts[index + 1]);
  if (wire::decode_tensor(bytes_of(from.parts.front()), header, index, tensor) != wire::decode_error::none ||
      tensor.bytes != bytes.size()) {
    return std::nullopt;
  }
  const tensor_info& output = from.pipeline->outputs[index];
  const std::string_view dtype = name_of(tensor.type);
  if (dtype.empty() || !is_shape_of(tensor, header.frames, output)) {
    return std::nullopt;
  }
  return tensor_view{output.name, dtype, bytes, tensor.shape, tensor.dimensions};
}

}  // namespace

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {static_cast<const std::byte*>(part.data()), part.size()};
}

std::optional<result> read_result(const wire::message_header& header, std::vector<zmq::message_t>&& parts,
                                  std::shared_ptr<const pipeline_info> pipeline) {
  const std::size_t outputs = pipeline->outputs.size();
  if (header.tensors != outputs || parts.size() != outputs + 1) {
    return std::nullopt;
  }
  auto storage = std::make_shared<received_message>();
  storage->parts = std::move(parts);
  storage->pipeline = std::move(pipeline);
  std::vector<tensor_view> views;
  views.reserve(outputs);
  for (std::size_t index = 0; index < outputs; ++index) {
    auto view = read_tensor(header, *storage, index);
    if (!view) {
      return std::nullopt;
    }
    views.push_back(*view);
  }
  return result{header.request_id, header.frames, std::move(views), std::move(storage)};
}

std::optional<request_error> read_error(const wire::message_header& header, std::span<const zmq::message_t> parts) {
  const auto kind = static_cast<std::size_t>(wire::kind_of(header.code));
  if (parts.size() != 2 || kind == 0 || kind >= wire::status_kinds) {
    return std::nullopt;
  }
  auto body = wire::decode_error_body(bytes_of(parts[1]));
  if (!body) {
    return std::nullopt;
  }
  return request_error{
      static_cast<std::uint16_t>(header.code),
      {std::move(body->reason), std::move(body->step), std::move(body->stage), std::move(body->device_error)}};
}

}  // namespace penstock::link
