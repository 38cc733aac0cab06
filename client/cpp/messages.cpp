#include "client/cpp/messages.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <penstock/result.hpp>

#include "client/cpp/catalogue.hpp"
#include "penstock_version.hpp"
#include "proto/control.hpp"

namespace penstock::link {
namespace {

std::span<std::byte> writable(zmq::message_t& part) {
  return {static_cast<std::byte*>(part.data()), part.size()};
}

zmq::message_t header_message(const wire::message_header& header) {
  zmq::message_t part{wire::header_bytes};
  wire::encode(header, writable(part));
  return part;
}

wire::tensor_header tensor_of(const pending_request& request, const tensor_info& input) {
  wire::tensor_header tensor;
  tensor.type = dtype_of(input.dtype).value_or(wire::data_type{});
  tensor.dimensions = static_cast<std::uint8_t>(std::min(input.shape.size() + 1, wire::max_dimensions));
  const std::int64_t leading = input.variable ? request.leading : 0;
  tensor.bytes = input.frame_bytes(leading) * request.frames;
  tensor.shape[0] = request.frames;
  std::copy_n(input.shape.begin(), tensor.dimensions - 1, tensor.shape.begin() + 1);
  if (leading > 0) {
    tensor.shape[1] = leading;
  }
  return tensor;
}

wire::sample_account wire_account(const sample_account& account) {
  return {.index = account.index,
          .time_ns = account.time_ns,
          .lost_before = account.lost_before,
          .epoch = account.epoch,
          .filled = account.filled,
          .quality = static_cast<wire::time_quality>(account.quality),
          .flags = account.flags};
}

/// nullopt when the header has none.
std::optional<sample_account> account_of(const wire::message_header& header, const zmq::message_t& head) {
  wire::sample_account said;
  if (!wire::decode_account(bytes_of(head), header, said)) {
    return std::nullopt;
  }
  return sample_account{.index = said.index,
                        .time_ns = said.time_ns,
                        .lost_before = said.lost_before,
                        .epoch = said.epoch,
                        .filled = said.filled,
                        .quality = static_cast<time_quality>(said.quality),
                        .flags = said.flags};
}

}  // namespace

submit_parts submit_message(pending_request& request, time_point now, std::uint64_t inline_bytes) {
  wire::message_header header;
  header.type = request.payload.shared() ? wire::message_type::submit_shared : wire::message_type::submit;
  header.request_id = request.id;
  header.pipeline = request.pipeline->id;
  const std::span<const tensor_info> inputs = inputs_of(*request.pipeline);
  header.tensors = static_cast<std::uint16_t>(inputs.size());
  header.frames = request.frames;
  header.trace_id = request.trace_id;
  if (request.session != nullptr) {
    header.session = request.session->number();
    header.sequence = request.sequence;
  }
  if (request.deadline != never) {
    const auto left = std::chrono::nanoseconds{request.deadline - now}.count();
    header.timeout_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(left, 1));
  }
  header.header_len = static_cast<std::uint16_t>(request.account ? wire::account_header_bytes : wire::header_bytes);
  const std::size_t head_bytes = header.header_len + inputs.size() * wire::tensor_header_bytes;
  const bool inlined = !request.payload.shared() && inline_bytes > 0 && request.payload.bytes() <= inline_bytes;
  zmq::message_t head{head_bytes + (inlined ? request.payload.bytes() : 0)};
  wire::encode(header, writable(head));
  if (request.account) {
    wire::encode(wire_account(*request.account), writable(head).subspan(wire::header_bytes));
  }
  std::size_t tensor_at = header.header_len;
  for (const tensor_info& each : inputs) {
    wire::encode(tensor_of(request, each), writable(head).subspan(tensor_at));
    tensor_at += wire::tensor_header_bytes;
  }
  if (inlined) {
    std::ranges::copy(request.payload.contents(), writable(head).subspan(head_bytes).begin());
    return submit_parts{std::move(head)};
  }
  if (request.payload.shared()) {
    zmq::message_t place{wire::shared_place_bytes};
    wire::encode(request.payload.place(/*repeat=*/request.sent), writable(place));
    return {std::move(head), std::move(place)};
  }
  if (inputs.size() == 1) {
    return {std::move(head), request.payload.message()};
  }
  submit_parts parts{std::move(head)};
  std::size_t offset = 0;
  for (const tensor_info& each : inputs) {
    const std::size_t bytes = each.frame_bytes(each.variable ? request.leading : 0) * request.frames;
    parts.add(request.payload.message(offset, bytes));
    offset += bytes;
  }
  return parts;
}

zmq::message_t bare_message(wire::message_type type, std::uint64_t request_id) {
  return question_message(type, request_id, 0);
}

zmq::message_t question_message(wire::message_type type, std::uint64_t request_id, std::uint64_t cursor,
                                std::uint32_t session) {
  wire::message_header header;
  header.type = type;
  header.request_id = request_id;
  header.session = session;
  header.sequence = cursor;
  return header_message(header);
}

zmq::message_t close_message(std::uint32_t session) {
  wire::message_header header;
  header.type = wire::message_type::close_session;
  header.session = session;
  return header_message(header);
}

std::array<zmq::message_t, 2> hello_message(std::uint64_t request_id, std::string_view client_name,
                                            std::string_view token) {
  const std::string body =
      wire::encode(wire::hello{std::string(client_name), version, wire::max_inline_bytes, std::string(token)});
  return {bare_message(wire::message_type::hello, request_id), zmq::message_t{body.data(), body.size()}};
}

std::array<zmq::message_t, 2> attach_message(std::uint64_t bytes) {
  const std::string body = wire::encode(wire::attach{bytes});
  return {bare_message(wire::message_type::attach, attach_id), zmq::message_t{body.data(), body.size()}};
}

std::array<zmq::message_t, 2> open_message(std::uint64_t request_id, std::uint32_t pipeline, std::string_view name) {
  const std::string body = wire::encode(wire::open_session{pipeline, std::string(name)});
  return {bare_message(wire::message_type::open_session, request_id), zmq::message_t{body.data(), body.size()}};
}

std::array<zmq::message_t, 2> subscribe_message(std::uint64_t request_id, const wire::subscribe& wanted) {
  const std::string body = wire::encode(wanted);
  return {bare_message(wire::message_type::subscribe, request_id), zmq::message_t{body.data(), body.size()}};
}

namespace {

/// Storage that a result's views point into.
struct received_message {
  std::vector<zmq::message_t> parts;
  std::shared_ptr<const pipeline_info> pipeline;
};
struct published_message {
  std::vector<zmq::message_t> parts;
  std::shared_ptr<const wire::publisher> source;
};
struct shared_outputs {
  arena_block block;
  std::shared_ptr<const pipeline_info> pipeline;
};

/// True when the tensor holds `frames` frames of the output; a variable extent may be anything up to its maximum.
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

/// Iterates over the payloads of a RESULT: separate parts, or all behind the headers of the only part.
class payload_cursor {
 public:
  payload_cursor(const wire::message_header& header, std::span<const zmq::message_t> parts)
      : inlined_(parts.size() == 1), own_(parts.subspan(1)) {
    if (inlined_) {
      behind_ = wire::inline_payloads(bytes_of(parts.front()), header);
    }
  }

  /// nullopt when the payload does not have that size.
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
  /// True when no bytes are left.
  [[nodiscard]] bool at_end() const noexcept { return behind_.empty(); }

 private:
  bool inlined_;
  std::span<const zmq::message_t> own_;
  std::span<const std::byte> behind_;
};

/// A decoded tensor header: a view without data, and the payload size.
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
  std::int64_t stands_at = 0;
  if (header.header_len >= wire::account_header_bytes &&
      !wire::decode_output_index(bytes_of(part), header, index, stands_at)) {
    return std::nullopt;
  }
  return described_tensor{{output.name, dtype, {}, tensor.shape, tensor.dimensions, stands_at}, tensor.bytes};
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
  const auto account = account_of(header, storage->parts.front());
  result read{header.request_id, header.frames, std::move(views), std::move(storage)};
  read.set_account(account);
  return read;
}

std::optional<result> read_published(const wire::message_header& header, std::vector<zmq::message_t>&& parts,
                                     std::shared_ptr<const wire::publisher> source) {
  const std::size_t outputs = source->outputs.size();
  if (header.tensors != outputs || (parts.size() != outputs + 1 && parts.size() != 1)) {
    return std::nullopt;
  }
  auto storage = std::make_shared<published_message>();
  storage->parts = std::move(parts);
  storage->source = std::move(source);
  std::vector<tensor_view> views;
  views.reserve(outputs);
  payload_cursor payloads{header, storage->parts};
  for (std::size_t index = 0; index < outputs; ++index) {
    wire::tensor_header tensor;
    if (wire::decode_tensor(bytes_of(storage->parts.front()), header, index, tensor) != wire::decode_error::none) {
      return std::nullopt;
    }
    const std::string_view dtype = name_of(tensor.type);
    const auto bytes = payloads.next(tensor.bytes);
    std::int64_t stands_at = 0;
    if (dtype.empty() || !bytes || tensor.dimensions == 0 || tensor.shape[0] != std::int64_t{header.frames} ||
        (header.header_len >= wire::account_header_bytes &&
         !wire::decode_output_index(bytes_of(storage->parts.front()), header, index, stands_at))) {
      return std::nullopt;
    }
    views.push_back({storage->source->outputs[index], dtype, *bytes, tensor.shape, tensor.dimensions, stands_at});
  }
  if (!payloads.at_end()) {
    return std::nullopt;
  }
  const auto account = account_of(header, storage->parts.front());
  result read{header.request_id, header.frames, std::move(views), std::move(storage)};
  read.set_account(account);
  return read;
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
  result read{header.request_id, header.frames, std::move(views), std::move(storage)};
  read.set_account(account_of(header, parts.front()));
  return read;
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

namespace penstock {

const tensor_view& result::output(std::string_view name) const {
  const auto found =
      std::find_if(outputs_.begin(), outputs_.end(), [name](const tensor_view& each) { return each.name == name; });
  if (found == outputs_.end()) {
    std::string known;
    for (const tensor_view& each : outputs_) {
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    throw std::out_of_range("the result has no output \"" + std::string(name) + "\"; it has " + known);
  }
  return *found;
}

}  // namespace penstock
