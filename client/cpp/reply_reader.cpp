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
struct shared_outputs {
  arena_block block;
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

/// The payloads of a RESULT, one after the other: each a part of its own, or all behind the headers of the only part.
class payload_cursor {
 public:
  payload_cursor(const wire::message_header& header, std::span<const zmq::message_t> parts)
      : inlined_(parts.size() == 1), own_(parts.subspan(1)) {
    if (inlined_) {
      behind_ = wire::inline_payloads(bytes_of(parts.front()), header);
    }
  }

  /// nullopt when it does not have that many bytes.
  [[nodiscard]] std::optional<std::span<const std::byte>> next(std::uint64_t bytes) {
    if (!inlined_) {
      const std::span<const std::byte> part = bytes_of(own_.front());
      own_ = own_.subspan(1);
      return part.size() == bytes ? std::optional{part} : std::nullopt;
    }
    if (behind_.size() < bytes) {
      return std::nullopt;
    }
    const std::span<const std::byte> taken = behind_.first(bytes);
    behind_ = behind_.subspan(bytes);
    return taken;
  }
  /// Whether nothing lies behind the last one.
  [[nodiscard]] bool at_end() const noexcept { return behind_.empty(); }

 private:
  bool inlined_;
  std::span<const zmq::message_t> own_;
  std::span<const std::byte> behind_;
};

/// Output `index` of the message whose part 0 is `part`: its header as a view without bytes, and how many it has.
struct described_tensor {
  tensor_view view;
  std::uint64_t bytes = 0;
};
std::optional<described_tensor> read_tensor(const wire::message_header& header, const zmq::message_t& part,
                                            std::size_t index, const tensor_info& output) {
  wire::tensor_header tensor;
  if (wire::decode_tensor(bytes_of(part), header, index, tensor) != wire::decode_error::none) {
    return std::nullopt;
  }
  const std::string_view dtype = name_of(tensor.type);
  if (dtype.empty() || !is_shape_of(tensor, header.frames, output)) {
    return std::nullopt;
  }
  return described_tensor{{output.name, dtype, {}, tensor.shape, tensor.dimensions}, tensor.bytes};
}

}  // namespace

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {static_cast<const std::byte*>(part.data()), part.size()};
}

std::optional<result> read_result(const wire::message_header& header, std::vector<zmq::message_t>&& parts,
                                  std::shared_ptr<const pipeline_info> pipeline) {
  const std::size_t outputs = pipeline->outputs.size();
  if (header.tensors != outputs || (parts.size() != outputs + 1 && parts.size() != 1)) {
    return std::nullopt;
  }
  auto storage = std::make_shared<received_message>();
  storage->parts = std::move(parts);
  storage->pipeline = std::move(pipeline);
  std::vector<tensor_view> views;
  views.reserve(outputs);
  payload_cursor payloads{header, storage->parts};
  for (std::size_t index = 0; index < outputs; ++index) {
    auto tensor = read_tensor(header, storage->parts.front(), index, storage->pipeline->outputs[index]);
    const auto bytes = tensor ? payloads.next(tensor->bytes) : std::nullopt;
    if (!bytes) {
      return std::nullopt;
    }
    tensor->view.bytes = *bytes;
    views.push_back(tensor->view);
  }
  if (!payloads.at_end()) {
    return std::nullopt;
  }
  return result{header.request_id, header.frames, std::move(views), std::move(storage)};
}

std::optional<result> read_shared_result(const wire::message_header& header, std::span<const zmq::message_t> parts,
                                         std::shared_ptr<const pipeline_info> pipeline, arena_block& outputs,
                                         std::uint64_t output_bytes) {
  if (!outputs || header.tensors != pipeline->outputs.size() || parts.size() != 1) {
    return std::nullopt;
  }
  std::vector<tensor_view> views;
  views.reserve(header.tensors);
  std::uint64_t at = 0;
  for (std::size_t index = 0; index < header.tensors; ++index) {
    auto tensor = read_tensor(header, parts.front(), index, pipeline->outputs[index]);
    if (!tensor || at > output_bytes || tensor->bytes > output_bytes - at) {
      return std::nullopt;
    }
    tensor->view.bytes = {outputs.data() + at, tensor->bytes};
    at += wire::room_for(tensor->bytes);
    views.push_back(tensor->view);
  }
  auto storage = std::make_shared<shared_outputs>();
  storage->block = std::move(outputs);
  storage->pipeline = std::move(pipeline);
  return result{header.request_id, header.frames, std::move(views), std::move(storage)};
}

std::optional<daemon_error> read_error(const wire::message_header& header, std::span<const zmq::message_t> parts) {
  const auto kind = static_cast<std::size_t>(wire::kind_of(header.code));
  if (parts.size() != 2 || kind == 0 || kind >= wire::status_kinds) {
    return std::nullopt;
  }
  auto body = wire::decode_error_body(bytes_of(parts[1]));
  if (!body) {
    return std::nullopt;
  }
  return daemon_error{
      {static_cast<std::uint16_t>(header.code),
       {std::move(body->reason), std::move(body->step), std::move(body->stage), std::move(body->device_error)}},
      body->holds};
}

}  // namespace penstock::link
