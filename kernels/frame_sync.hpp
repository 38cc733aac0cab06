#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/session.hpp"

namespace penstock {

/// The word that frames begin with, and how long they are.
struct sync_search {
  std::uint64_t word = 0;  ///< its first bit is the highest of word_bits
  std::int32_t word_bits = 1;
  std::int32_t errors = 0;        ///< most wrong bits of the word
  bool either = false;            ///< its complement counts too
  std::int64_t rows = 1;          ///< of a frame
  std::int64_t row_bits = 1;      ///< of a row
  std::int64_t most = 1;          ///< frames that a block can end
  std::int64_t block_length = 1;  ///< numbers of a channel's input: a count and the bits

  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t frame_bits() const noexcept { return rows * row_bits; }
  /// Numbers of a frame in the output: a row about it, then its bits.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t frame_numbers() const noexcept { return (rows + 1) * row_bits; }
};

/// Where the search of a channel stands. The bits of the frame under way follow it in memory, a byte each.
struct sync_state {
  std::uint64_t latest = 0;   ///< the last bits, the newest lowest
  std::int64_t position = 0;  ///< bits of the session so far
  std::int64_t start = 0;     ///< of the frame under way: the position of its word's first bit
  std::int64_t taken = -1;    ///< bits of it that are there; -1: none is under way
  std::int32_t seen = 0;      ///< bits since the last frame, at most word_bits
  std::int32_t wrong = 0;     ///< of the word of the frame under way
  std::int32_t inverted = 0;  ///< whether it is the complement
  std::int32_t unused = 0;
};
static_assert(sizeof(sync_state) == 48);

/// frame_sync: the frames of a stream of bits, each behind a word that begins it.
///
/// The stream is what `clock` gives: blocks of a count and so many bits; a bit is 1 where the number is > 0. A word is
/// found behind each bit where the last bits differ from `word`, or with polarity "either" from its complement, in at
/// most `errors` places. The rows · length bits that follow are the frame, inverted if it was the complement; the
/// search goes on behind them. So neither the frame's end nor the word's is looked for within a frame. A word and a
/// frame may cross the edges of blocks. Each frame comes with the block that has its last bit.
///
/// Input: f32 [channels..., 1 + S]; each channel is searched by itself, and a session's blocks are one stream.
/// Output: f64 [channels..., F, 1 + rows, length], F = ⌊(S − 1) / (B + rows · length)⌋ + 1 with B bits of the word. Of
/// each frame row 0 is (position, wrong bits, 1 if inverted or 0, 0 …), and the others are its bits, 0 or 1. Position
/// counts the bits of the session before the word's first one: exact up to 2⁵³. Rows of a frame that is none have
/// position −1 and are 0 otherwise.
/// Parameters:
///   word      text, required: "0x…" with hexadecimal digits of four bits each, or "0b…" with one bit each; at most 64
///             bits, the first one in time first
///   errors    integer from 0 to 31, below half of the word's bits, default 0
///   polarity  "normal" (default) or "either"
///   rows      integer from 1 on, default 1
///   length    integer from 3 on, required; a frame has at most 2^20 bits
/// State: 48 bytes and the frame's bits, a byte each, of every channel.
/// A count that is no integer from 0 to S, which `clock` never gives, counts as the nearest one.
struct frame_sync_settings {
  sync_search search;
  std::int64_t channels = 1;
  tensor_spec output;

  [[nodiscard]] std::size_t channel_state_bytes() const noexcept {
    return sizeof(sync_state) + (static_cast<std::size_t>(search.frame_bits()) + 7) / 8 * 8;
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(channels) * channel_state_bytes();
  }
};

inline constexpr std::int64_t max_sync_frame_bits = std::int64_t{1} << 20;

/// std::popcount, which a kernel can't call.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline std::int32_t count_ones(std::uint64_t bits) noexcept {
  std::int32_t count = 0;
  for (; bits != 0; bits &= bits - 1) {
    ++count;
  }
  return count;
}

/// Takes one channel through one block. `kept` holds the bits of the frame under way, `frames` is the channel's output,
/// all of which is written.
PENSTOCK_HOST_DEVICE inline void run_frame_sync(const sync_search& search, const float* block, sync_state& state,
                                                std::uint8_t* kept, double* frames) noexcept {
  const std::int64_t room = search.block_length - 1;
  const std::int64_t bits = search.frame_bits();
  const std::int64_t numbers = search.frame_numbers();
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - search.word_bits);
  const float told = block[0];
  const std::int64_t count = !(told > 0.0F)                     ? 0
                             : told >= static_cast<float>(room) ? room
                                                                : static_cast<std::int64_t>(told);
  std::int64_t found = 0;
  for (std::int64_t at = 0; at < count; ++at) {
    const bool bit = block[1 + at] > 0.0F;
    ++state.position;
    if (state.taken >= 0) {
      kept[state.taken] = static_cast<std::uint8_t>(bit != (state.inverted != 0) ? 1 : 0);
      ++state.taken;
      if (state.taken == bits) {
        double* const frame = frames + found * numbers;
        frame[0] = static_cast<double>(state.start);
        frame[1] = static_cast<double>(state.wrong);
        frame[2] = static_cast<double>(state.inverted);
        for (std::int64_t rest = 3; rest < search.row_bits; ++rest) {
          frame[rest] = 0.0;
        }
        for (std::int64_t each = 0; each < bits; ++each) {
          frame[search.row_bits + each] = static_cast<double>(kept[each]);
        }
        ++found;
        state.taken = -1;
        state.seen = 0;
      }
      continue;
    }
    state.latest = state.latest << 1 | (bit ? 1U : 0U);
    state.seen += state.seen < search.word_bits ? 1 : 0;
    if (state.seen == search.word_bits) {
      const std::int32_t wrong = count_ones((state.latest ^ search.word) & mask);
      const bool inverted = search.either && search.word_bits - wrong <= search.errors;
      if (wrong <= search.errors || inverted) {
        state.start = state.position - search.word_bits;
        state.taken = 0;
        state.wrong = inverted ? search.word_bits - wrong : wrong;
        state.inverted = inverted ? 1 : 0;
      }
    }
  }
  for (; found < search.most; ++found) {
    double* const frame = frames + found * numbers;
    frame[0] = -1.0;
    for (std::int64_t rest = 1; rest < numbers; ++rest) {
      frame[rest] = 0.0;
    }
  }
}

/// Throws parameter_error.
inline void parse_sync_word(const std::string& text, sync_search& search) {
  const bool hexadecimal = text.starts_with("0x");
  const std::size_t digits = text.size() < 2 ? 0 : text.size() - 2;
  const std::size_t bits = digits * (hexadecimal ? 4 : 1);
  const bool known = (hexadecimal || text.starts_with("0b")) &&
                     text.find_first_not_of(hexadecimal ? "0123456789abcdefABCDEF" : "01", 2) == std::string::npos;
  if (!known || bits < 1 || bits > 64) {
    throw parameter_error(
        "word", "must be \"0x\" and hexadecimal digits, or \"0b\" and bits, of 1 to 64 bits, not \"" + text + "\"");
  }
  search.word = std::stoull(text.substr(2), nullptr, hexadecimal ? 16 : 2);
  search.word_bits = static_cast<std::int32_t>(bits);
}

/// Throws parameter_error.
[[nodiscard]] inline frame_sync_settings parse_frame_sync(const parameters& settings, const tensor_spec& input) {
  require_element_type("frame_sync", input, {element_type::f32});
  require_fixed_last_axis("frame_sync", input);
  if (input.variable || input.shape.back() < 2) {
    throw parameter_error("from",
                          "'frame_sync' takes blocks of a count and bits, as 'clock' gives them, not " + input.text());
  }
  frame_sync_settings parsed;
  sync_search& search = parsed.search;
  parse_sync_word(settings.text("word"), search);
  search.errors = static_cast<std::int32_t>(parse_integer(settings, "errors", 0, 31, 0));
  if (2 * search.errors >= search.word_bits) {
    throw parameter_error("errors", "must be less than half of the word's " + std::to_string(search.word_bits) +
                                        " bits, not " + std::to_string(search.errors));
  }
  search.either = parse_choice(settings, "polarity", {"normal", "either"}) == 1;
  search.rows = parse_integer(settings, "rows", 1, max_sync_frame_bits, 1);
  search.row_bits = parse_integer(settings, "length", 3, max_sync_frame_bits);
  if (search.frame_bits() > max_sync_frame_bits) {
    throw parameter_error(
        "length", "makes frames of " + std::to_string(search.frame_bits()) + " bits; at most 1048576 are allowed");
  }
  search.block_length = input.shape.back();
  search.most = (search.block_length - 2) / (search.word_bits + search.frame_bits()) + 1;
  parsed.channels = input.elements() / search.block_length;
  parsed.output = {.type = element_type::f64, .shape = input.shape, .variable = false};
  parsed.output.shape.back() = search.most;
  parsed.output.shape.push_back(1 + search.rows);
  parsed.output.shape.push_back(search.row_bits);
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> frame_sync_session(const parameters& /*settings*/,
                                                                      std::span<const tensor_spec> /*inputs*/) {
  session_traits traits;
  traits.whole_frames = true;
  return traits;
}

[[nodiscard]] std::unique_ptr<operation> make_frame_sync_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_frame_sync_cuda(const operation_request& request);

}  // namespace penstock
