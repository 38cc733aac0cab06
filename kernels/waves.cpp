#include "kernels/waves.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace penstock {
namespace {

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// What a run knows of a session of its batch.
struct wave_session {
  std::int32_t frame = 0;   ///< its next frame
  std::int32_t frames = 0;  ///< in the batch
};

/// Room for the bookkeeping of one run.
struct wave_book {
  std::span<wave_session> sessions;
  std::span<wave_session> sorted;
  std::span<std::int32_t> counts;
  std::span<row_copy> rows;
};

class waves final : public operation {
 public:
  waves(std::unique_ptr<operation> step, wave_layout layout, copy_rows_function copy_rows, bool keeps_book)
      : step_(std::move(step)), layout_(std::move(layout)), copy_rows_(copy_rows) {
    const auto frames = static_cast<std::size_t>(layout_.max_frames);
    const auto place = [this](std::size_t bytes) { return std::exchange(scratch_, scratch_ + aligned(bytes)); };
    for (const std::size_t bytes : layout_.inputs) {
      inputs_at_.push_back(place(frames * bytes));
    }
    for (const std::size_t bytes : layout_.outputs) {
      outputs_at_.push_back(place(frames * bytes));
    }
    for (std::size_t& each : states_at_) {
      each = place(frames * layout_.state_bytes);
    }
    step_scratch_at_ = place(step_->scratch_bytes());
    book_at_ = keeps_book ? 0 : place(book_bytes());
    book_.resize(keeps_book ? book_bytes() : 0);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_; }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return layout_.state_bytes; }
  [[nodiscard]] std::string note() const override { return step_->note(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    wave_book book = book_of(arguments);
    const std::size_t sessions = sort_sessions(arguments, book);
    if (sessions == 0) {
      return {};
    }
    const bool one_wave = book.sessions.front().frames == 1;
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = gather_states(stream, arguments, book, sessions)) {
      return failed;
    }
    std::size_t held = 0;  // the half of the gathered states that a wave reads
    for (std::size_t count = sessions, wave = 0; count != 0; ++wave) {
      if (const fault failed = run_wave(stream, arguments, book, count,
                                        {scratch + states_at_[held], scratch + states_at_[1 - held]}, one_wave)) {
        return failed;
      }
      held = 1 - held;
      // Sessions stand with the longest first, so those that go on are the first ones.
      std::size_t next = count;
      while (next != 0 && book.sessions[next - 1].frames <= static_cast<std::int32_t>(wave) + 1) {
        --next;
      }
      if (const fault failed = scatter_states(stream, arguments, book, next, count, scratch + states_at_[held])) {
        return failed;
      }
      for (std::size_t each = 0; each < next; ++each) {
        book.sessions[each].frame = arguments.host_frames[book.sessions[each].frame].next;
      }
      count = next;
    }
    return {};
  }

 private:
  struct wave_states {
    std::byte* before = nullptr;
    std::byte* after = nullptr;
  };

  [[nodiscard]] std::size_t book_bytes() const noexcept {
    return static_cast<std::size_t>(layout_.max_frames + 1) *
           (2 * sizeof(wave_session) + sizeof(std::int32_t) + sizeof(row_copy));
  }

  [[nodiscard]] wave_book book_of(const operation_arguments& arguments) noexcept {
    std::byte* const place = book_.empty() ? static_cast<std::byte*>(arguments.scratch) + book_at_ : book_.data();
    const auto room = static_cast<std::size_t>(layout_.max_frames + 1);
    auto* const sessions = reinterpret_cast<wave_session*>(place);
    auto* const rows = reinterpret_cast<row_copy*>(sessions + 2 * room);
    return {
        {sessions, room}, {sessions + room, room}, {reinterpret_cast<std::int32_t*>(rows + room), room}, {rows, room}};
  }

  /// The sessions of a batch, those with the most frames first, else in the order of their first frames. A batch in
  /// which each has one frame keeps its order. Returns how many there are.
  static std::size_t sort_sessions(const operation_arguments& arguments, wave_book& book) noexcept {
    const session_frame* const table = arguments.host_frames;
    const auto frames = static_cast<std::int32_t>(arguments.extent.frames);
    std::fill_n(book.counts.begin(), frames + 1, 0);
    std::size_t sessions = 0;
    for (std::int32_t first = 0; first < frames; ++first) {
      if (table[first].previous >= 0) {
        continue;
      }
      wave_session& made = book.sorted[sessions++];
      made = {first, 0};
      for (std::int32_t frame = first; frame >= 0; frame = table[frame].next) {
        ++made.frames;
      }
      ++book.counts[static_cast<std::size_t>(made.frames)];
    }
    std::int32_t before = 0;
    for (std::int32_t length = frames; length > 0; --length) {
      before += std::exchange(book.counts[static_cast<std::size_t>(length)], before);
    }
    for (std::size_t each = 0; each < sessions; ++each) {
      const auto length = static_cast<std::size_t>(book.sorted[each].frames);
      book.sessions[static_cast<std::size_t>(book.counts[length]++)] = book.sorted[each];
    }
    return sessions;
  }

  [[nodiscard]] row_table pool_of(const operation_arguments& arguments) const noexcept {
    return {arguments.session.pool, arguments.session.stride};
  }

  fault gather_states(void* stream, const operation_arguments& arguments, wave_book& book,
                      std::size_t sessions) noexcept {
    for (std::size_t each = 0; each < sessions; ++each) {
      const session_frame& frame = arguments.host_frames[book.sessions[each].frame];
      book.rows[each] = {static_cast<std::int32_t>(each), frame.position == 0 ? -1 : 2 * frame.place + frame.half};
    }
    return copy_rows_(stream, {static_cast<std::byte*>(arguments.scratch) + states_at_[0], layout_.state_bytes},
                      pool_of(arguments), layout_.state_bytes, book.rows.first(sessions));
  }

  /// Of sessions `first` … `end` − 1, whose last frame was in this wave.
  fault scatter_states(void* stream, const operation_arguments& arguments, wave_book& book, std::size_t first,
                       std::size_t end, std::byte* states) noexcept {
    for (std::size_t each = first; each < end; ++each) {
      const session_frame& frame = arguments.host_frames[book.sessions[each].frame];
      book.rows[each - first] = {2 * frame.place + 1 - frame.half, static_cast<std::int32_t>(each)};
    }
    return copy_rows_(stream, pool_of(arguments), {states, layout_.state_bytes}, layout_.state_bytes,
                      book.rows.first(end - first));
  }

  fault run_wave(void* stream, const operation_arguments& arguments, wave_book& book, std::size_t count,
                 const wave_states& states, bool in_place) noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    std::array<const void*, most_operands> inputs{};
    std::array<void*, most_operands> outputs{};
    for (std::size_t each = 0; each < count; ++each) {
      book.rows[each] = {static_cast<std::int32_t>(each), book.sessions[each].frame};
    }
    for (std::size_t input = 0; input < layout_.inputs.size(); ++input) {
      inputs[input] = in_place ? arguments.inputs[input] : scratch + inputs_at_[input];
      if (in_place) {
        continue;
      }
      // It is only read.
      auto* const from = static_cast<std::byte*>(const_cast<void*>(arguments.inputs[input]));
      if (const fault failed =
              copy_rows_(stream, {scratch + inputs_at_[input], layout_.inputs[input]}, {from, layout_.inputs[input]},
                         layout_.inputs[input], book.rows.first(count))) {
        return failed;
      }
    }
    for (std::size_t output = 0; output < layout_.outputs.size(); ++output) {
      outputs[output] = in_place ? arguments.outputs[output] : scratch + outputs_at_[output];
    }
    inputs[layout_.inputs.size()] = states.before;
    outputs[layout_.outputs.size()] = states.after;
    const fault failed = step_->run(stream, {.inputs = std::span(inputs).first(layout_.inputs.size() + 1),
                                             .output = outputs.front(),
                                             .scratch = scratch + step_scratch_at_,
                                             .extent = {static_cast<std::int64_t>(count), arguments.extent.leading},
                                             .session = {},
                                             .outputs = std::span(outputs).first(layout_.outputs.size() + 1)});
    if (failed || in_place) {
      return failed;
    }
    for (std::size_t each = 0; each < count; ++each) {
      std::swap(book.rows[each].to, book.rows[each].from);
    }
    for (std::size_t output = 0; output < layout_.outputs.size(); ++output) {
      const std::size_t bytes = layout_.outputs[output];
      if (const fault met = copy_rows_(stream, {static_cast<std::byte*>(arguments.outputs[output]), bytes},
                                       {scratch + outputs_at_[output], bytes}, bytes, book.rows.first(count))) {
        return met;
      }
    }
    return {};
  }

  static constexpr std::size_t most_operands = 16;

  const std::unique_ptr<operation> step_;
  const wave_layout layout_;
  const copy_rows_function copy_rows_;
  std::size_t scratch_ = 0;
  // Where these begin in the scratch.
  std::vector<std::size_t> inputs_at_;
  std::vector<std::size_t> outputs_at_;
  std::array<std::size_t, 2> states_at_{};
  std::size_t step_scratch_at_ = 0;
  std::size_t book_at_ = 0;
  std::vector<std::byte> book_;  // empty: in the scratch
};

fault copy_rows_host(void* /*stream*/, row_table to, row_table from, std::size_t bytes,
                     std::span<const row_copy> rows) noexcept {
  for (const row_copy& each : rows) {
    std::byte* const target = to.first + static_cast<std::size_t>(each.to) * to.pitch;
    if (each.from < 0) {
      std::memset(target, 0, bytes);
    } else {
      std::memcpy(target, from.first + static_cast<std::size_t>(each.from) * from.pitch, bytes);
    }
  }
  return {};
}

}  // namespace

wave_layout wave_layout_of(std::span<const tensor_spec> inputs, std::span<const operator_output> outputs,
                           std::size_t state_bytes, std::int64_t max_frames) {
  wave_layout made{.inputs = {}, .outputs = {}, .state_bytes = state_bytes, .max_frames = max_frames};
  for (const tensor_spec& each : inputs) {
    made.inputs.push_back(each.bytes());
  }
  for (const operator_output& each : outputs) {
    made.outputs.push_back(each.spec.bytes());
  }
  return made;
}

std::unique_ptr<operation> make_waves(std::unique_ptr<operation> step, wave_layout layout, copy_rows_function copy_rows,
                                      bool keeps_book) {
  return std::make_unique<waves>(std::move(step), std::move(layout), copy_rows, keeps_book);
}

std::unique_ptr<operation> make_waves_host(std::unique_ptr<operation> step, wave_layout layout) {
  return make_waves(std::move(step), std::move(layout), copy_rows_host, /*keeps_book=*/false);
}

}  // namespace penstock
