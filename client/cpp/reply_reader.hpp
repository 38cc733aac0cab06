#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "client/cpp/arena.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// The bytes of a received part, at any alignment, valid while the part lives and does not move.
[[nodiscard]] std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept;

/// The result that a RESULT message holds; its views look into the parts, which it keeps. nullopt when the message is
/// not what `pipeline` gives: wrong number of tensors or of parts, a tensor that can't be read, an unknown dtype,
/// another shape, payloads of another size. Payloads may lie behind the headers, with no part of their own. A variable
/// output's leading extent is taken as it comes, from 0 up to the most.
[[nodiscard]] std::optional<result> read_result(const wire::message_header& header, std::vector<zmq::message_t>&& parts,
                                                std::shared_ptr<const pipeline_info> pipeline);

/// The result that a RESULT_SHARED message tells of: its views look into the block, which it keeps, with room for
/// `output_bytes`. nullopt, and the block is as it was, for the same reasons, or when the outputs do not fit there.
[[nodiscard]] std::optional<result> read_shared_result(const wire::message_header& header,
                                                       std::span<const zmq::message_t> parts,
                                                       std::shared_ptr<const pipeline_info> pipeline,
                                                       arena_block& outputs, std::uint64_t output_bytes);

/// What an ERROR message holds.
struct daemon_error {
  request_error error;
  bool holds = false;  ///< the daemon still has the request's place in the arena
};
/// nullopt when the status is none of an error or the body can't be read.
[[nodiscard]] std::optional<daemon_error> read_error(const wire::message_header& header,
                                                     std::span<const zmq::message_t> parts);

}  // namespace penstock::link
