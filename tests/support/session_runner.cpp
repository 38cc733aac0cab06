#include "tests/support/session_runner.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

namespace penstock {
namespace {

/// A batch of frames of several sessions.
struct session_batch {
  std::vector<session_frame> frames;
  std::vector<std::size_t> owners;   ///< the session of each frame
  std::vector<std::int64_t> starts;  ///< of each frame, without its session's age
  std::int64_t leading = 0;
};

/// Cuts sessions at random into frames, and puts these at random into batches.
class session_cut {
 public:
  /// `remaining`: the steps of each session. `most` and `least`: steps of the longest and the shortest frame, equal for
  /// a fixed input. `places`: of the pool, at least one a session.
  session_cut(const session_case& setup, const std::vector<std::int64_t>& remaining, std::int64_t least,
              std::int64_t most, step_rate rate, std::int32_t places)
      : engine_{setup.seed},
        sessions_(remaining.size()),
        least_{least},
        most_{most},
        age_{setup.age},
        aged_from_{setup.aged_from},
        rate_{rate} {
    std::vector<std::int32_t> free(static_cast<std::size_t>(places));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), engine_);
    for (std::size_t index = 0; index < sessions_.size(); ++index) {
      sessions_[index] = {
          .remaining = remaining[index], .place = free[index], .half = static_cast<std::int32_t>(integer(0, 1))};
    }
  }

  /// Empty once every session is at its end.
  [[nodiscard]] session_batch next(std::int64_t max_frames) {
    session_batch batch;
    for (std::int64_t wanted = integer(1, max_frames); wanted > 0; --wanted) {
      std::vector<std::size_t> waiting;
      for (std::size_t index = 0; index < sessions_.size(); ++index) {
        if (sessions_[index].remaining > 0) {
          waiting.push_back(index);
        }
      }
      if (waiting.empty()) {
        break;
      }
      append(batch, waiting[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(waiting.size()) - 1))]);
    }
    std::int64_t longest = 1;
    for (const session_frame& frame : batch.frames) {
      longest = std::max<std::int64_t>(longest, frame.steps);
    }
    batch.leading = integer(0, 1) == 0 ? longest : integer(longest, most_);
    for (session& each : sessions_) {
      each.half = each.last < 0 ? each.half : 1 - each.half;
      each.last = -1;
    }
    return batch;
  }

 private:
  struct session {
    std::int64_t position = 0;
    std::int64_t remaining = 0;
    std::int32_t place = 0;
    std::int32_t half = 0;
    std::int32_t last = -1;  ///< its last frame in the batch that is being filled
    bool aged = false;
  };

  [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>{least, most}(engine_);
  }

  /// Half of the frames are short, so that several lie within one history.
  [[nodiscard]] std::int32_t length(std::int64_t remaining) {
    const std::int64_t most = integer(0, 1) == 0 ? most_ : std::max(least_, most_ / 8);
    return static_cast<std::int32_t>(std::min(integer(least_, std::max<std::int64_t>(most, 1)), remaining));
  }

  void append(session_batch& batch, std::size_t owner) {
    session& owning = sessions_[owner];
    const auto index = static_cast<std::int32_t>(batch.frames.size());
    const std::int32_t steps = length(owning.remaining);
    // With the batch's first frame of the session, since a session's frames of a batch follow on each other.
    owning.aged = owning.aged || (owning.last < 0 && owning.position >= aged_from_);
    const std::int64_t position = owning.position + (owning.aged ? age_ : 0);
    batch.frames.push_back(
        {.position = position,
         .steps = steps,
         .produced = static_cast<std::int32_t>(rate_.total(position + steps) - rate_.total(position)),
         .previous = owning.last,
         .next = -1,
         .place = owning.place,
         .half = owning.half});
    batch.owners.push_back(owner);
    batch.starts.push_back(owning.position);
    if (owning.last >= 0) {
      batch.frames[static_cast<std::size_t>(owning.last)].next = index;
    }
    owning.last = index;
    owning.position += steps;
    owning.remaining -= steps;
  }

  std::mt19937_64 engine_;
  std::vector<session> sessions_;
  std::int64_t least_;
  std::int64_t most_;
  std::int64_t age_;
  std::int64_t aged_from_;
  step_rate rate_;
};

constexpr std::size_t alignment = 256;
constexpr std::byte garbage{0xFF};

void require(fault outcome, const std::string& step) {
  if (outcome) {
    throw std::runtime_error(step + ": " + outcome.name);
  }
}

const operator_definition& definition_of(const std::string& op) {
  const operator_definition* const found = find_operator(op);
  if (found == nullptr || found->session == nullptr) {
    throw std::invalid_argument("no operator '" + op + "' that keeps state");
  }
  return *found;
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A part of the arena; garbage lies before and behind it.
struct region {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// All memory of a run in one piece of the device's, and its image on this side: whatever an operation writes shows.
class arena {
 public:
  [[nodiscard]] region place(std::size_t bytes) {
    const region placed{size_ + alignment, bytes};
    size_ = placed.begin + aligned(bytes) + alignment;
    return placed;
  }
  void allocate(device& owner) {
    pinned_ = owner.allocate_pinned(size_);
    device_ = owner.allocate(size_);
    image_.assign(size_, garbage);
  }
  [[nodiscard]] std::byte* on_device(const region& where) const { return device_.get() + where.begin; }
  [[nodiscard]] std::byte* at(const region& where) { return image_.data() + where.begin; }
  void spoil(const region& where) { std::fill_n(at(where), where.bytes, garbage); }

  void upload(stream& through) {
    std::memcpy(pinned_.get(), image_.data(), size_);
    require(through.copy_in(device_.get(), pinned_.get(), size_), "copy_in");
    require(through.synchronize(), "synchronize");
  }
  /// Takes over what the device holds in the regions `written`; true when it holds what it held everywhere else.
  [[nodiscard]] bool download(stream& through, const std::vector<region>& written) {
    require(through.copy_out(pinned_.get(), device_.get(), size_), "copy_out");
    require(through.synchronize(), "synchronize");
    for (const region& each : written) {
      std::copy_n(pinned_.get() + each.begin, each.bytes, at(each));
    }
    return std::equal(image_.begin(), image_.end(), pinned_.get());
  }

 private:
  std::size_t size_ = 0;
  device_memory pinned_;
  device_memory device_;
  std::vector<std::byte> image_;
};

/// One case on its way through its batches.
class session_run {
 public:
  session_run(device& owner, stream& through, const session_case& setup,
              std::span<const std::vector<std::byte>> signals)
      : stream_{through},
        setup_{setup},
        signals_{signals},
        whole_frames_{setup.traits().whole_frames},
        frame_results_{setup.traits().frame_results},
        rate_{setup.traits().rate},
        output_spec_{setup.output()},
        results_(signals.size()) {
    const std::int64_t spare_frames = 2;
    compiled_ = owner.compile(setup.op, {.settings = setup.settings,
                                         .inputs = std::span{&setup_.input, 1},
                                         .max_frames = setup.max_frames + spare_frames,
                                         .tuned = setup.numbers != nullptr});
    EXPECT_GT(compiled_->state_bytes(), 0U) << setup.text() << ": sessions need a state";
    const auto frames = static_cast<std::size_t>(setup.max_frames);
    places_ = signals.size() + 2;
    stride_ = aligned(compiled_->state_bytes()) + alignment * (setup.seed % 2);
    input_ = memory_.place(frames * setup.input.bytes());
    output_ = memory_.place(frames * output_spec_.bytes());
    scratch_ = memory_.place(compiled_->scratch_bytes());
    table_ = memory_.place(frames * sizeof(session_frame));
    if (setup.numbers != nullptr) {
      const std::span<const tensor_spec> inputs{&setup.input, 1};
      numbers_ =
          memory_.place(frames * definition_of(setup.op).tunable(setup.settings, inputs).size() * sizeof(double));
    }
    pool_ = memory_.place(2 * places_ * stride_);
    memory_.allocate(owner);
  }

  std::vector<std::vector<std::byte>> finish() {
    if (whole_frames_ && setup_.input.variable) {
      throw std::invalid_argument("a step that is a frame can't be variable");
    }
    const bool fixed = whole_frames_ || !setup_.input.variable;
    const std::int64_t most = whole_frames_ ? 1 : setup_.input.shape[setup_.traits().axis];
    std::vector<std::int64_t> remaining;
    for (const std::vector<std::byte>& signal : signals_) {
      const auto steps = static_cast<std::int64_t>(signal.size() / setup_.input_step_bytes());
      if (signal.size() % setup_.input_step_bytes() != 0 || (fixed && steps % most != 0)) {
        throw std::invalid_argument("a signal is not a whole number of steps or of fixed frames");
      }
      remaining.push_back(steps);
    }
    session_cut cut{setup_, remaining, fixed ? most : setup_.least_steps,
                    most,   rate_,     static_cast<std::int32_t>(places_)};
    const bool begins_old = setup_.age > 0 && setup_.aged_from == 0;
    if (!setup_.state.empty() && !begins_old) {
      throw std::invalid_argument("states are given to sessions that are old from their first step on");
    }
    if (begins_old) {
      age_states();
    }
    for (session_batch batch = cut.next(setup_.max_frames); !batch.frames.empty();
         batch = cut.next(setup_.max_frames)) {
      run_batch(batch);
    }
    return std::move(results_);
  }

 private:
  void age_states() {
    if (!setup_.state.empty() && setup_.state.size() != compiled_->state_bytes()) {
      throw std::invalid_argument("the state has another size");
    }
    std::fill_n(memory_.at(pool_), pool_.bytes, std::byte{});
    for (std::size_t half = 0; half < 2 * places_; ++half) {
      std::copy(setup_.state.begin(), setup_.state.end(), memory_.at(pool_) + half * stride_);
    }
  }

  void run_batch(const session_batch& batch) {
    fill(batch);
    const std::array<const void*, 1> inputs{memory_.on_device(input_)};
    const operation_arguments arguments{
        .inputs = inputs,
        .output = memory_.on_device(output_),
        .scratch = memory_.on_device(scratch_),
        .extent = {.frames = static_cast<std::int64_t>(batch.frames.size()), .leading = batch.leading},
        .session = {.frames = reinterpret_cast<const session_frame*>(memory_.on_device(table_)),
                    .pool = memory_.on_device(pool_),
                    .stride = stride_},
        .numbers = setup_.numbers == nullptr ? nullptr : reinterpret_cast<const double*>(memory_.on_device(numbers_))};
    require(stream_.launch(*compiled_, arguments), "launch");
    require(stream_.synchronize(), "synchronize");
    EXPECT_TRUE(memory_.download(stream_, writable(batch)))
        << setup_.text() << ": wrote elsewhere than to the output, the scratch and its sessions' new states";
    collect(batch);
  }

  void fill(const session_batch& batch) {
    memory_.spoil(input_);
    memory_.spoil(output_);
    memory_.spoil(scratch_);
    memory_.spoil(table_);
    std::memcpy(memory_.at(table_), batch.frames.data(), batch.frames.size() * sizeof(session_frame));
    for (std::size_t index = 0; index < batch.frames.size() && setup_.numbers != nullptr; ++index) {
      const std::vector<double> own = setup_.numbers(batch.owners[index], batch.starts[index]);
      std::memcpy(memory_.at(numbers_) + index * own.size() * sizeof(double), own.data(), own.size() * sizeof(double));
    }
    const std::size_t step = setup_.input_step_bytes();
    for (std::size_t index = 0; index < batch.frames.size(); ++index) {
      const session_frame& frame = batch.frames[index];
      const std::byte* const from =
          signals_[batch.owners[index]].data() + static_cast<std::size_t>(batch.starts[index]) * step;
      std::copy_n(from, static_cast<std::size_t>(frame.steps) * step,
                  memory_.at(input_) + index * setup_.input.bytes(batch.leading));
    }
    memory_.upload(stream_);
  }

  [[nodiscard]] std::size_t output_pitch(const session_batch& batch) const {
    return output_spec_.bytes(rate_.most(batch.leading));
  }

  [[nodiscard]] std::vector<region> writable(const session_batch& batch) const {
    std::vector<region> written{{output_.begin, batch.frames.size() * output_pitch(batch)}, scratch_};
    for (const session_frame& frame : batch.frames) {
      const auto half = static_cast<std::size_t>(2 * frame.place + 1 - frame.half);
      written.push_back({pool_.begin + half * stride_, compiled_->state_bytes()});
    }
    return written;
  }

  void collect(const session_batch& batch) {
    for (std::size_t index = 0; index < batch.frames.size(); ++index) {
      const std::byte* const first = memory_.at(output_) + index * output_pitch(batch);
      const std::size_t results = frame_results_ ? 1 : static_cast<std::size_t>(batch.frames[index].produced);
      const std::size_t bytes = results * setup_.output_step_bytes();
      std::vector<std::byte>& result = results_[batch.owners[index]];
      result.insert(result.end(), first, first + bytes);
    }
  }

  stream& stream_;
  const session_case setup_;
  const std::span<const std::vector<std::byte>> signals_;
  const bool whole_frames_;
  const bool frame_results_;
  const step_rate rate_;
  const tensor_spec output_spec_;
  std::vector<std::vector<std::byte>> results_;
  std::unique_ptr<operation> compiled_;
  std::size_t places_ = 0;
  std::size_t stride_ = 0;
  arena memory_;
  region input_;
  region output_;
  region scratch_;
  region table_;
  region numbers_;
  region pool_;
};

}  // namespace

tensor_spec session_case::output() const {
  return definition_of(op).infer(settings, std::span{&input, 1});
}

session_traits session_case::traits() const {
  static_cast<void>(output());
  return definition_of(op).session(settings, std::span{&input, 1}).value();
}

std::size_t session_case::input_step_bytes() const {
  const session_traits its = traits();
  return its.whole_frames ? input.bytes() : input.bytes() / static_cast<std::size_t>(input.shape[its.axis]);
}

std::size_t session_case::output_step_bytes() const {
  const tensor_spec out = output();
  const session_traits its = traits();
  return its.whole_frames || its.frame_results ? out.bytes()
                                               : out.bytes() / static_cast<std::size_t>(out.shape[its.axis]);
}

std::string session_case::text() const {
  std::ostringstream written;
  written << op << " on " << input.text() << ", seed " << seed;
  return written.str();
}

session_runner::session_runner(std::unique_ptr<device> target)
    : device_{std::move(target)}, stream_{device_->open_stream(stream_priority::normal)} {}

std::vector<std::vector<std::byte>> session_runner::run(const session_case& setup,
                                                        std::span<const std::vector<std::byte>> signals) {
  return session_run{*device_, *stream_, setup, signals}.finish();
}

}  // namespace penstock
