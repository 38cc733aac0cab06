#include "client/cpp/payload.hpp"

#include <atomic>
#include <cstring>

namespace penstock::link {
namespace {

/// The owner of a message's memory.
template <class Owner>
struct kept {
  explicit kept(Owner&& owner) : object(std::move(owner)) {}
  Owner object;
  /// Writer: the thread that makes the message, once. Reader: the thread that frees it, which may be libzmq's.
  std::atomic<bool> handed_over{false};
};

template <class Owner>
void drop(void* /*data*/, void* hint) {
  auto* const owner = static_cast<kept<Owner>*>(hint);
  if (owner->handed_over.load(std::memory_order_acquire)) {
    delete owner;
  }
}

/// A message that refers to the bytes; the owner is destroyed with its last copy.
template <class Owner>
zmq::message_t message_of(std::span<const std::byte> bytes, std::unique_ptr<kept<Owner>> owner) {
  // libzmq takes a non-const pointer but never writes to what it sends.
  zmq::message_t message{const_cast<std::byte*>(bytes.data()), bytes.size(), &drop<Owner>, owner.get()};
  owner.release()->handed_over.store(true, std::memory_order_release);
  return message;
}

bool is_aligned(const arena_block& block, std::span<const std::byte> bytes) {
  return (bytes.data() - block.data()) % static_cast<std::ptrdiff_t>(wire::place_alignment) == 0;
}

}  // namespace

payload payload::over_socket(client::request& request) {
  payload made;
  made.bytes_ = request.bytes.size();
  if (request.release) {
    auto owner = std::make_unique<kept<last_call>>(last_call{std::move(request.release)});
    made.sent_release_ = &owner->object;
    made.message_ = message_of(request.bytes, std::move(owner));
  } else {
    made.message_ = zmq::message_t{request.bytes.data(), request.bytes.size()};
  }
  return made;
}

std::optional<payload> payload::through(arena& shared, client::request& request, std::uint64_t output_bytes) {
  payload made;
  made.bytes_ = request.bytes.size();
  made.output_bytes_ = output_bytes;
  made.output_ = shared.take(output_bytes);
  made.shared_ = static_cast<bool>(made.output_);
  made.input_ = shared.block_of(request.bytes);
  if (made.input_ && is_aligned(made.input_, request.bytes)) {
    made.input_at_ = made.input_.offset() + static_cast<std::uint64_t>(request.bytes.data() - made.input_.data());
  } else {
    made.input_ = made.shared_ ? shared.take(request.bytes.size()) : arena_block{};
    if (!made.input_) {
      return std::nullopt;
    }
    made.input_at_ = made.input_.offset();
    std::memcpy(made.input_.data(), request.bytes.data(), request.bytes.size());
  }
  made.release_ = last_call{std::move(request.release)};
  return made;
}

void payload::keep_unreleased() noexcept {
  release_.disarm();
  if (sent_release_ != nullptr) {
    sent_release_->disarm();
  }
}

std::span<const std::byte> payload::contents() const noexcept {
  return {input_ ? input_.data() + (input_at_ - input_.offset()) : static_cast<const std::byte*>(message_.data()),
          bytes_};
}

zmq::message_t payload::message() {
  if (message_.size() == 0 && input_) {
    message_ = message_of(contents(), std::make_unique<kept<arena_block>>(input_.again()));
  }
  zmq::message_t shared;
  shared.copy(message_);
  return shared;
}

zmq::message_t payload::message(std::size_t offset, std::size_t bytes) {
  return message_of(contents().subspan(offset, bytes), std::make_unique<kept<zmq::message_t>>(message()));
}

wire::shared_place payload::place(bool repeat) const noexcept {
  return {input_.home()->number(), repeat, input_at_, output_.offset(), output_bytes_};
}

std::optional<std::uint64_t> output_room(const pipeline_info& pipeline, std::uint32_t frames) {
  std::uint64_t room = 0;
  for (const tensor_info& output : pipeline.outputs) {
    std::uint64_t bytes = 0;
    const bool known = output.item_bytes() > 0 &&
                       !__builtin_mul_overflow(std::uint64_t{output.frame_bytes()}, std::uint64_t{frames}, &bytes) &&
                       bytes <= UINT64_MAX - wire::place_alignment &&
                       !__builtin_add_overflow(room, wire::room_for(bytes), &room);
    if (!known) {
      return std::nullopt;
    }
  }
  return room;
}

std::uint64_t likely_output(const pipeline_info& pipeline, std::uint32_t frames, std::int64_t leading) {
  const tensor_info& input = pipeline.input;
  const bool shorter = input.variable && leading > 0;
  std::uint64_t bytes = 0;
  for (const tensor_info& output : pipeline.outputs) {
    const double part =
        shorter && output.variable ? static_cast<double>(leading) / static_cast<double>(input.shape.front()) : 1;
    bytes += wire::room_for(static_cast<std::uint64_t>(part * static_cast<double>(output.frame_bytes())) * frames);
  }
  return bytes;
}

}  // namespace penstock::link
