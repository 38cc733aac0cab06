#include "kernels/proof.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/half.hpp"

namespace penstock {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t guard_bytes = 4096;        // around each piece of memory
constexpr std::size_t last_guard_bytes = 65536;  // behind the last, an output

std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

// -- elements, by the names of their types: "cf32" is complex, of floats of 32 bits -----------------------------------

/// What an element is made of.
struct number_format {
  enum class kind : std::uint8_t { signed_integer, unsigned_integer, floating, brain, boolean };
  kind form = kind::floating;
  std::size_t bytes = 4;  ///< of a number
};

number_format format_of(element_type type) {
  using kind = number_format::kind;
  std::string_view name = name_of(type);
  const bool is_pair = name.starts_with('c');
  name.remove_prefix(is_pair ? 1 : 0);
  const kind form = name == "bool"           ? kind::boolean
                    : name.starts_with("bf") ? kind::brain
                    : name.starts_with('f')  ? kind::floating
                    : name.starts_with('i')  ? kind::signed_integer
                                             : kind::unsigned_integer;
  return {form, size_of(type) / (is_pair ? 2 : 1)};
}

template <class Number>
Number loaded(const std::byte* from) noexcept {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

/// Of a floating-point format.
double real_at(const number_format& format, const std::byte* from) noexcept {
  if (format.form == number_format::kind::brain) {
    return static_cast<double>(to_float(loaded<brain_bits>(from)));
  }
  return format.bytes == 2   ? static_cast<double>(to_float(loaded<half_bits>(from)))
         : format.bytes == 4 ? static_cast<double>(loaded<float>(from))
                             : loaded<double>(from);
}

/// Of the others, which all fit.
std::int64_t integer_at(const number_format& format, const std::byte* from) noexcept {
  if (format.form == number_format::kind::signed_integer) {
    return format.bytes == 1   ? loaded<std::int8_t>(from)
           : format.bytes == 2 ? loaded<std::int16_t>(from)
           : format.bytes == 4 ? loaded<std::int32_t>(from)
                               : loaded<std::int64_t>(from);
  }
  return format.bytes == 1 ? loaded<std::uint8_t>(from) : loaded<std::uint16_t>(from);
}

/// `number` is a multiple of 1/16 below 8 in magnitude, which every floating-point format has.
void put_number(const number_format& format, double number, std::byte* to) noexcept {
  using kind = number_format::kind;
  const auto put = [to](auto value) { std::memcpy(to, &value, sizeof value); };
  const auto whole = static_cast<std::int64_t>(std::lround(number * 12.0));
  switch (format.form) {
    case kind::floating:
      if (format.bytes == 8) {
        put(number);
      } else if (format.bytes == 4) {
        put(static_cast<float>(number));
      } else {
        put(to_half(static_cast<float>(number)));
      }
      break;
    case kind::brain:
      put(to_brain(static_cast<float>(number)));
      break;
    case kind::boolean:
      put(static_cast<std::uint8_t>(number > 0.0 ? 1 : 0));
      break;
    default: {
      const std::int64_t shown = format.form == kind::unsigned_integer ? std::llabs(whole) : whole;
      std::memcpy(to, &shown, format.bytes);  // little-endian: the first bytes are the narrower number
    }
  }
}

std::vector<std::byte> made_up(const tensor_spec& spec, std::size_t bytes, std::mt19937_64& random) {
  const number_format format = format_of(spec.type);
  std::vector<std::byte> made(bytes);
  for (std::size_t at = 0; at + format.bytes <= bytes; at += format.bytes) {
    put_number(format, (static_cast<double>(random() % 255) - 127.0) / 16.0, made.data() + at);
  }
  return made;
}

double tolerance_of(const number_format& format) noexcept {
  return format.bytes == 2 ? 1e-2 : format.bytes == 4 ? 1e-5 : 1e-9;
}

bool is_real(const number_format& format) noexcept {
  return format.form == number_format::kind::floating || format.form == number_format::kind::brain;
}

std::string shown(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", number);
  return text.data();
}

/// `tolerance`: a part of the largest magnitude.
std::string difference_of_reals(const number_format& format, std::span<const std::byte> expected,
                                std::span<const std::byte> given, double tolerance) {
  double peak = 0.0;
  for (std::size_t at = 0; at < expected.size(); at += format.bytes) {
    const double magnitude = std::abs(real_at(format, expected.data() + at));
    peak = std::isfinite(magnitude) ? std::max(peak, magnitude) : peak;
  }
  for (std::size_t at = 0; at < expected.size(); at += format.bytes) {
    const double left = real_at(format, expected.data() + at);
    const double right = real_at(format, given.data() + at);
    const bool agree =
        left == right || (std::isnan(left) && std::isnan(right)) || std::abs(left - right) <= peak * tolerance;
    if (!agree) {
      return "number " + std::to_string(at / format.bytes) + " is " + shown(left) + " and " + shown(right);
    }
  }
  return "";
}

/// Never by way of double, which has no place for all numbers of 64 bits.
std::string difference_of_integers(const number_format& format, std::span<const std::byte> expected,
                                   std::span<const std::byte> given, double steps) {
  for (std::size_t at = 0; at < expected.size(); at += format.bytes) {
    const std::int64_t left = integer_at(format, expected.data() + at);
    const std::int64_t right = integer_at(format, given.data() + at);
    const std::uint64_t distance =
        static_cast<std::uint64_t>(std::max(left, right)) - static_cast<std::uint64_t>(std::min(left, right));
    if (static_cast<double>(distance) > steps) {
      return "number " + std::to_string(at / format.bytes) + " is " + std::to_string(left) + " and " +
             std::to_string(right);
    }
  }
  return "";
}

/// The first number of two results that does not agree; "" if all do.
std::string difference(const tensor_spec& spec, std::span<const std::byte> expected, std::span<const std::byte> given,
                       std::optional<double> tolerance, double steps) {
  if (expected.size() == given.size() && std::equal(expected.begin(), expected.end(), given.begin())) {
    return "";
  }
  if (expected.size() != given.size()) {
    return "they have " + std::to_string(expected.size()) + " and " + std::to_string(given.size()) + " bytes";
  }
  const number_format format = format_of(spec.type);
  return is_real(format) ? difference_of_reals(format, expected, given, tolerance.value_or(tolerance_of(format)))
                         : difference_of_integers(format, expected, given, steps);
}

// -- memory with canaries ---------------------------------------------------------------------------------------------

/// A part of the arena.
struct piece {
  std::string name;
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

/// All memory of a run in one block of the device's, and what it must hold: whatever an operation writes shows.
class arena {
 public:
  explicit arena(proof_device& device) : device_(device) {}

  piece& place(std::string name, std::size_t bytes) {
    const std::size_t begin = end_ + guard_bytes;
    end_ = begin + aligned(bytes);
    return pieces_.emplace_back(piece{std::move(name), begin, bytes});
  }
  void allocate() {
    image_.resize(end_ + last_guard_bytes);
    memory_ = device_.allocate(image_.size());
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return end_ + last_guard_bytes; }
  [[nodiscard]] std::byte* at(const piece& where) const noexcept { return memory_ + where.begin; }
  [[nodiscard]] std::byte* image(const piece& where) noexcept { return image_.data() + where.begin; }

  void fill(std::byte canary) { std::fill(image_.begin(), image_.end(), canary); }
  /// Fills all but the piece.
  void fill_around(const piece& kept, std::byte canary) {
    const auto begin = image_.begin() + static_cast<std::ptrdiff_t>(kept.begin);
    std::fill(image_.begin(), begin, canary);
    std::fill(begin + static_cast<std::ptrdiff_t>(kept.bytes), image_.end(), canary);
  }
  void upload() { require(device_.write(memory_, image_)); }
  /// Takes over what the device holds in the pieces `written`. Throws proof_error if anything else changed.
  void download(std::span<const piece> written, const std::string& batch) {
    seen_.resize(image_.size());
    require(device_.read(seen_, memory_));
    for (const piece& each : written) {
      std::copy_n(seen_.begin() + static_cast<std::ptrdiff_t>(each.begin), each.bytes,
                  image_.begin() + static_cast<std::ptrdiff_t>(each.begin));
    }
    const auto [held, found] = std::mismatch(image_.begin(), image_.end(), seen_.begin());
    if (held != image_.end()) {
      throw proof_error(place_of(static_cast<std::size_t>(held - image_.begin()), written) + batch);
    }
  }
  static void require(fault met) {
    if (met) {
      throw proof_error("fails: " + text_of(met));
    }
  }

 private:
  /// Which rule a byte that changed breaks.
  [[nodiscard]] std::string place_of(std::size_t byte, std::span<const piece> written) const {
    for (const piece& each : pieces_) {
      if (byte >= each.begin && byte < each.begin + each.bytes && each.name.starts_with("input")) {
        return "changes its " + each.name;
      }
    }
    const piece* nearest = nullptr;
    for (const piece& each : written) {
      if (each.begin <= byte && (nearest == nullptr || each.begin > nearest->begin)) {
        nearest = &each;
      }
    }
    if (nearest != nullptr && byte - nearest->begin - nearest->bytes < last_guard_bytes) {
      return "writes behind the end of its " + nearest->name + ", " +
             std::to_string(byte - nearest->begin - nearest->bytes) + " bytes";
    }
    for (const piece& each : written) {
      if (byte < each.begin && each.begin - byte <= guard_bytes) {
        return "writes before the start of its " + each.name + ", " + std::to_string(each.begin - byte) + " bytes";
      }
    }
    return "writes where nothing of it lies";
  }

  proof_device& device_;
  std::vector<piece> pieces_;
  std::size_t end_ = 0;
  std::byte* memory_ = nullptr;
  std::vector<std::byte> image_;
  std::vector<std::byte> seen_;
};

// -- frames and batches -----------------------------------------------------------------------------------------------

/// One made-up frame: the bytes of each input.
struct made_frame {
  std::int64_t steps = 1;  ///< of the first input
  std::vector<std::vector<std::byte>> inputs;
};

/// The frames of a batch, and with state who they are of.
struct made_batch {
  std::vector<const made_frame*> frames;
  std::vector<session_frame> table;
  std::int64_t leading = 0;
};

/// Runs batches of one operation in memory of its own, with canaries.
class batch_runner {
 public:
  /// `places`: of sessions.
  batch_runner(proof_device& device, const proof_subject& subject, std::int64_t most_frames, std::size_t places)
      : device_(device), subject_(subject), memory_(device) {
    const auto frames = static_cast<std::size_t>(most_frames);
    for (std::size_t at = 0; at < subject.inputs.size(); ++at) {
      inputs_.push_back(
          memory_.place(numbered("input", at, subject.inputs.size()), frames * subject.inputs[at].bytes()));
    }
    if (subject.session) {
      table_ = memory_.place("input of sessions", frames * sizeof(session_frame));
      stride_ = aligned(subject.subject.state_bytes()) + alignment;
      pool_ = memory_.place("states", 2 * places * stride_);
    }
    scratch_ = memory_.place("scratch", subject.subject.scratch_bytes());
    for (std::size_t at = 0; at < subject.outputs.size(); ++at) {
      outputs_.push_back(
          memory_.place(numbered("output", at, subject.outputs.size()), frames * subject.outputs[at].bytes()));
    }
    memory_.allocate();
  }

  /// The results of each frame, by output. `canary` fills all that is not input, states as they were left.
  std::vector<std::vector<std::vector<std::byte>>> run(const made_batch& batch, std::byte canary, bool over = false) {
    fill(batch, canary);
    std::vector<const void*> inputs;
    for (const piece& each : inputs_) {
      inputs.push_back(memory_.at(each));
    }
    std::vector<piece> outputs = outputs_;
    if (over) {
      outputs.front() = inputs_.front();
      outputs.front().name = outputs_.front().name;
    }
    std::vector<void*> results;
    for (const piece& each : outputs) {
      results.push_back(memory_.at(each));
    }
    operation_arguments arguments{
        .inputs = inputs,
        .output = results.front(),
        .scratch = memory_.at(scratch_),
        .extent = {.frames = static_cast<std::int64_t>(batch.frames.size()), .leading = batch.leading},
        .session = {},
        .outputs = results,
        .host_frames = batch.table.data()};
    if (subject_.session) {
      arguments.session = {reinterpret_cast<const session_frame*>(memory_.at(table_)), memory_.at(pool_), stride_};
    }
    arena::require(device_.run(subject_.subject, arguments));
    memory_.download(writable(batch, outputs), " in a batch of " + std::to_string(batch.frames.size()) +
                                                   (batch.frames.size() == 1 ? " frame" : " frames"));
    return collect(batch, outputs);
  }

 private:
  static std::string numbered(const char* name, std::size_t at, std::size_t of) {
    return of == 1 ? name : std::string(name) + " " + std::to_string(at);
  }

  void fill(const made_batch& batch, std::byte canary) {
    if (!subject_.session) {
      memory_.fill(canary);
    } else if (!began_) {
      memory_.fill(canary);
      began_ = true;
    } else {
      memory_.fill_around(pool_, canary);
    }
    for (std::size_t at = 0; at < batch.frames.size(); ++at) {
      for (std::size_t input = 0; input < inputs_.size(); ++input) {
        const std::vector<std::byte>& bytes = batch.frames[at]->inputs[input];
        std::copy(bytes.begin(), bytes.end(),
                  memory_.image(inputs_[input]) + at * subject_.inputs[input].bytes(batch.leading));
      }
    }
    if (subject_.session) {
      std::memcpy(memory_.image(table_), batch.table.data(), batch.table.size() * sizeof(session_frame));
    }
    memory_.upload();
  }

  [[nodiscard]] std::size_t pitch(std::size_t output, const made_batch& batch) const {
    const step_rate rate = subject_.session ? subject_.session->rate : step_rate{};
    return subject_.outputs[output].bytes(rate.most(batch.leading));
  }

  [[nodiscard]] std::vector<piece> writable(const made_batch& batch, const std::vector<piece>& outputs) const {
    std::vector<piece> written{scratch_};
    for (std::size_t at = 0; at < outputs.size(); ++at) {
      written.push_back({outputs[at].name, outputs[at].begin, batch.frames.size() * pitch(at, batch)});
    }
    for (const session_frame& frame : batch.table) {
      const auto half = static_cast<std::size_t>(2 * frame.place + 1 - frame.half);
      written.push_back({"new state", pool_.begin + half * stride_, subject_.subject.state_bytes()});
    }
    return written;
  }

  std::vector<std::vector<std::vector<std::byte>>> collect(const made_batch& batch, const std::vector<piece>& outputs) {
    std::vector<std::vector<std::vector<std::byte>>> results(batch.frames.size());
    for (std::size_t at = 0; at < batch.frames.size(); ++at) {
      for (std::size_t output = 0; output < outputs.size(); ++output) {
        std::size_t bytes = pitch(output, batch);
        if (subject_.session && !subject_.session->whole_frames && !subject_.session->frame_results) {
          const tensor_spec& spec = subject_.outputs[output];
          bytes = spec.bytes() / static_cast<std::size_t>(spec.shape.front()) *
                  static_cast<std::size_t>(batch.table[at].produced);
        }
        const std::byte* const first = memory_.image(outputs[output]) + at * pitch(output, batch);
        results[at].emplace_back(first, first + bytes);
      }
    }
    return results;
  }

  proof_device& device_;
  const proof_subject& subject_;
  arena memory_;
  std::vector<piece> inputs_;
  std::vector<piece> outputs_;
  piece table_;
  piece pool_;
  piece scratch_;
  std::size_t stride_ = 0;
  bool began_ = false;
};

constexpr std::byte one_canary{0xFF};  // not a number in floating point, -1 in integers
constexpr std::byte other_canary{0x5A};

std::int64_t frames_within(const proof_subject& subject, std::size_t most_bytes, std::int64_t frames) {
  std::size_t frame = 1;
  for (const auto* specs : {&subject.inputs, &subject.outputs}) {
    for (const tensor_spec& each : *specs) {
      frame += each.bytes();
    }
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(most_bytes / frame), 1, frames);
}

void tell(const proof_settings& settings, const std::string& rule) {
  if (settings.proven) {
    settings.proven(rule);
  }
}

std::string in_output(const proof_subject& subject, std::size_t output) {
  return subject.outputs.size() == 1 ? "" : ", output " + std::to_string(output);
}

// -- without state ----------------------------------------------------------------------------------------------------

using frame_results = std::vector<std::vector<std::byte>>;  // by output

/// A proof of an operation without state, over some frames of one length.
class frame_proof {
 public:
  frame_proof(proof_device& device, const proof_subject& subject, const proof_settings& settings)
      : subject_(subject),
        settings_(settings),
        full_(frames_within(subject, settings.most_bytes, subject.max_frames)),
        runner_(device, subject, full_, 0) {}

  /// The results of each frame.
  proof_results prove(std::int64_t leading) {
    std::mt19937_64 random(settings_.seed + static_cast<std::uint64_t>(leading));
    constexpr std::int64_t several = 4;
    frames_.clear();
    for (std::int64_t at = 0; at < several; ++at) {
      made_frame& made = frames_.emplace_back();
      for (const tensor_spec& spec : subject_.inputs) {
        made.inputs.push_back(made_up(spec, spec.bytes(leading), random));
      }
    }
    expected_.clear();
    leading_ = leading;
    for (std::size_t at = 0; at < frames_.size(); ++at) {
      expected_.push_back(std::move(runner_.run(batch_of({at}), one_canary).front()));
    }
    check({0}, other_canary,
          "a second run gives another result: it leaves a part of the output unwritten, or depends "
          "on what lies in memory");
    const std::size_t count = std::min<std::size_t>(frames_.size(), static_cast<std::size_t>(full_));
    std::vector<std::size_t> order(count);
    for (std::size_t at = 0; at < count; ++at) {
      order[at] = at;
    }
    check(order, one_canary, "a frame's result depends on the other frames of its batch");
    std::reverse(order.begin(), order.end());
    check(order, other_canary, "a frame's result depends on its place in the batch");
    order.resize(static_cast<std::size_t>(full_));
    for (std::size_t& each : order) {
      each = static_cast<std::size_t>(random() % frames_.size());
    }
    check(order, one_canary, "a frame's result is another in a full batch, of " + std::to_string(full_) + " frames");
    if (subject_.overwrites) {
      check(order, other_canary, "the result is another where the output is the first input, which it allows", true);
    }
    proof_results all(subject_.outputs.size());
    for (const frame_results& each : expected_) {
      for (std::size_t output = 0; output < all.size(); ++output) {
        all[output].insert(all[output].end(), each[output].begin(), each[output].end());
      }
    }
    return all;
  }

 private:
  [[nodiscard]] made_batch batch_of(const std::vector<std::size_t>& order) const {
    made_batch batch;
    batch.leading = leading_;
    for (const std::size_t each : order) {
      batch.frames.push_back(&frames_[each]);
    }
    return batch;
  }

  void check(const std::vector<std::size_t>& order, std::byte canary, const std::string& rule, bool over = false) {
    const auto results = runner_.run(batch_of(order), canary, over);
    for (std::size_t at = 0; at < order.size(); ++at) {
      for (std::size_t output = 0; output < subject_.outputs.size(); ++output) {
        const std::string differs =
            difference(subject_.outputs[output], expected_[order[at]][output], results[at][output], std::nullopt, 0);
        if (!differs.empty()) {
          throw proof_error(rule + " (frame " + std::to_string(at) + in_output(subject_, output) + ": " + differs +
                            ")");
        }
      }
    }
  }

  const proof_subject& subject_;
  const proof_settings& settings_;
  const std::int64_t full_;
  batch_runner runner_;
  std::vector<made_frame> frames_;
  std::vector<frame_results> expected_;
  std::int64_t leading_ = 0;
};

// -- with state -------------------------------------------------------------------------------------------------------

/// The signal of a session: the bytes of each input, and its steps of the first.
struct made_session {
  std::int64_t steps = 0;
  std::vector<std::vector<std::byte>> inputs;
};

/// Takes sessions through an operation with state.
class session_proof {
 public:
  session_proof(proof_device& device, const proof_subject& subject, const proof_settings& settings)
      : subject_(subject), settings_(settings), device_(device), random_(settings.seed) {
    const tensor_spec& input = subject.inputs.front();
    longest_ = subject.session->whole_frames ? 1 : input.shape.front();
    // A session with another input of one fixed shape can be cut in one way only.
    cuts_freely_ = std::all_of(subject.inputs.begin(), subject.inputs.end(),
                               [](const tensor_spec& each) { return each.variable; }) &&
                   !subject.session->whole_frames && !subject.session->frame_results;
    constexpr int frames_of_session = 5;
    for (std::size_t session = 0; session < sessions; ++session) {
      made_session& made = made_.emplace_back();
      made.steps = longest_ * frames_of_session;
      for (const tensor_spec& spec : subject.inputs) {
        made.inputs.push_back(made_up(spec, spec.bytes() * frames_of_session, random_));
      }
    }
  }

  proof_results prove() {
    const std::vector<frame_results> expected = take(1, false, one_canary, longest_);
    compare(
        expected, take(1, false, other_canary, longest_),
        "a second run gives another result: it leaves a part of the output unwritten, takes what lies in memory for "
        "a state at position 0, or depends on memory otherwise");
    const std::int64_t most =
        frames_within(subject_, settings_.most_bytes, std::min<std::int64_t>(subject_.max_frames, 7));
    if (most > 1) {
      compare(expected, take(most, true, one_canary, longest_),
              "a session's result depends on the batches that its frames come in, or on other sessions");
    }
    if (cuts_freely_ && longest_ > 1) {
      cuts_ = true;
      compare(expected, take(most, most > 1, other_canary, longest_),
              "a session's result depends on how it is cut into frames");
    }
    proof_results all(subject_.outputs.size());
    for (const frame_results& each : expected) {
      for (std::size_t output = 0; output < all.size(); ++output) {
        all[output].insert(all[output].end(), each[output].begin(), each[output].end());
      }
    }
    return all;
  }

 private:
  static constexpr std::size_t sessions = 3;

  /// Where a session stands.
  struct standing {
    std::int64_t position = 0;
    std::int32_t place = 0;
    std::int32_t half = 0;
    std::int32_t last = -1;  ///< its last frame in the batch that is being filled
  };

  /// The outputs of every session, taken through in batches of up to `most` frames, of frames of up to `longest` steps;
  /// one session after the other, or all of them `mixed`.
  std::vector<frame_results> take(std::int64_t most, bool mixed, std::byte canary, std::int64_t longest) {
    batch_runner runner(device_, subject_, most, sessions + 1);
    std::vector<frame_results> results(sessions, frame_results(subject_.outputs.size()));
    std::vector<standing> all(sessions);
    for (std::size_t session = 0; session < sessions; ++session) {
      all[session].place = static_cast<std::int32_t>((session + (mixed ? 2 : 0)) % (sessions + 1));
      all[session].half = static_cast<std::int32_t>(mixed ? session % 2 : 0);
    }
    for (;;) {
      std::vector<std::size_t> owners;
      std::vector<made_frame> frames;
      made_batch batch;
      while (static_cast<std::int64_t>(frames.size()) < most) {
        const std::optional<std::size_t> session = next_session(all, mixed);
        if (!session) {
          break;
        }
        owners.push_back(*session);
        frames.push_back(cut(*session, all[*session], longest, batch));
      }
      if (frames.empty()) {
        return results;
      }
      for (const made_frame& each : frames) {
        batch.frames.push_back(&each);
        batch.leading = std::max(batch.leading, each.steps);
      }
      // Batches of several frames are shorter than the longest now and then, as they are between clients.
      batch.leading = mixed && batches_++ % 2 == 1 ? longest_ : batch.leading;
      const auto made = runner.run(batch, canary);
      for (std::size_t at = 0; at < frames.size(); ++at) {
        for (std::size_t output = 0; output < subject_.outputs.size(); ++output) {
          std::vector<std::byte>& to = results[owners[at]][output];
          to.insert(to.end(), made[at][output].begin(), made[at][output].end());
        }
      }
      for (standing& each : all) {
        each.half = each.last < 0 ? each.half : 1 - each.half;
        each.last = -1;
      }
    }
  }

  [[nodiscard]] std::optional<std::size_t> next_session(const std::vector<standing>& all, bool mixed) {
    std::vector<std::size_t> waiting;
    for (std::size_t session = 0; session < sessions; ++session) {
      if (all[session].position < made_[session].steps) {
        waiting.push_back(session);
      }
    }
    if (waiting.empty()) {
      return std::nullopt;
    }
    return waiting[mixed ? static_cast<std::size_t>(random_() % waiting.size()) : 0];
  }

  made_frame cut(std::size_t session, standing& at, std::int64_t longest, made_batch& batch) {
    const std::int64_t left = made_[session].steps - at.position;
    // Short frames among long ones.
    const std::int64_t most = cuts_ && random_() % 2 == 0 ? std::min<std::int64_t>(longest, 3) : longest;
    const std::int64_t wanted =
        cuts_ ? 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most)) : most;
    made_frame frame;
    frame.steps = std::min(left, wanted);
    for (std::size_t input = 0; input < subject_.inputs.size(); ++input) {
      const std::vector<std::byte>& signal = made_[session].inputs[input];
      const std::size_t step = signal.size() / static_cast<std::size_t>(made_[session].steps);
      const auto begin = signal.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(at.position) * step);
      frame.inputs.emplace_back(begin,
                                begin + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(frame.steps) * step));
    }
    const auto index = static_cast<std::int32_t>(batch.table.size());
    const step_rate& rate = subject_.session->rate;
    batch.table.push_back(
        {.position = at.position,
         .steps = static_cast<std::int32_t>(frame.steps),
         .produced = static_cast<std::int32_t>(rate.total(at.position + frame.steps) - rate.total(at.position)),
         .previous = at.last,
         .next = -1,
         .place = at.place,
         .half = at.half});
    if (at.last >= 0) {
      batch.table[static_cast<std::size_t>(at.last)].next = index;
    }
    at.last = index;
    at.position += frame.steps;
    return frame;
  }

  void compare(const std::vector<frame_results>& expected, const std::vector<frame_results>& given,
               const std::string& rule) const {
    for (std::size_t session = 0; session < sessions; ++session) {
      for (std::size_t output = 0; output < subject_.outputs.size(); ++output) {
        const std::string differs =
            difference(subject_.outputs[output], expected[session][output], given[session][output], std::nullopt, 0);
        if (!differs.empty()) {
          throw proof_error(rule + " (session " + std::to_string(session) + in_output(subject_, output) + ": " +
                            differs + ")");
        }
      }
    }
  }

  const proof_subject& subject_;
  const proof_settings& settings_;
  proof_device& device_;
  std::mt19937_64 random_;
  std::vector<made_session> made_;
  std::int64_t longest_ = 1;
  std::uint64_t batches_ = 0;  // mixed ones
  bool cuts_freely_ = false;
  bool cuts_ = false;
};

class host_proof_device final : public proof_device {
 public:
  ~host_proof_device() override { std::free(memory_); }

  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    std::free(std::exchange(memory_, nullptr));
    memory_ = static_cast<std::byte*>(std::aligned_alloc(alignment, aligned(bytes)));
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
    return memory_;
  }
  fault write(std::byte* to, std::span<const std::byte> from) noexcept override {
    std::copy(from.begin(), from.end(), to);
    return {};
  }
  fault read(std::span<std::byte> to, const std::byte* from) noexcept override {
    std::copy_n(from, to.size(), to.begin());
    return {};
  }
  fault run(operation& subject, const operation_arguments& arguments) noexcept override {
    return subject.run(nullptr, arguments);
  }

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace

std::unique_ptr<proof_device> make_host_proof_device() {
  return std::make_unique<host_proof_device>();
}

proof_results prove(proof_device& device, const proof_subject& subject, const proof_settings& settings) {
  if (subject.session) {
    proof_results made = session_proof(device, subject, settings).prove();
    tell(settings, "it writes its outputs, its scratch and its sessions' new states, all of them, and nothing else");
    tell(settings, "a session's result is the same alone, beside others, and in any batches");
    if (std::all_of(subject.inputs.begin(), subject.inputs.end(),
                    [](const tensor_spec& each) { return each.variable; })) {
      tell(settings, "a session's result is the same however it is cut into frames");
    }
    return made;
  }
  frame_proof proof(device, subject, settings);
  const tensor_spec& input = subject.inputs.front();
  const auto variable =
      std::find_if(subject.inputs.begin(), subject.inputs.end(), [](const tensor_spec& each) { return each.variable; });
  const std::int64_t longest = variable == subject.inputs.end() ? input.shape.front() : variable->shape.front();
  proof_results made = proof.prove(longest);
  if (variable != subject.inputs.end() && longest > 1) {
    static_cast<void>(proof.prove(1));
    static_cast<void>(proof.prove((longest + 1) / 2));
  }
  tell(settings, "it writes all of its outputs and its scratch, and nothing else");
  tell(settings, "a frame's result is the same alone, in another place, and in a full batch");
  if (subject.overwrites) {
    tell(settings, "the result is the same where the output is the first input");
  }
  return made;
}

void prove_threads(const std::function<std::unique_ptr<proof_device>()>& open, const proof_subject& subject,
                   std::size_t threads, const proof_settings& settings) {
  const proof_settings quiet{.seed = settings.seed, .most_bytes = settings.most_bytes / threads, .proven = {}};
  std::vector<proof_results> results(threads);
  std::vector<std::exception_ptr> errors(threads);
  {
    std::vector<std::jthread> running;
    for (std::size_t at = 0; at < threads; ++at) {
      running.emplace_back([&, at] {
        try {
          results[at] = prove(*open(), subject, quiet);
        } catch (...) {
          errors[at] = std::current_exception();
        }
      });
    }
  }
  for (std::size_t at = 0; at < threads; ++at) {
    std::string differs;
    try {
      if (errors[at] != nullptr) {
        std::rethrow_exception(errors[at]);
      }
      differs = compare_results(subject.outputs, results.front(), results[at]);
    } catch (const proof_error& error) {
      differs = error.what();
    }
    if (!differs.empty()) {
      throw proof_error("while " + std::to_string(threads) + " threads run it at once: " + differs);
    }
  }
  tell(settings, "the results are the same while " + std::to_string(threads) + " threads run it at once");
}

std::string compare_results(std::span<const tensor_spec> outputs, const proof_results& expected,
                            const proof_results& given, std::optional<double> tolerance, double steps) {
  for (std::size_t output = 0; output < outputs.size(); ++output) {
    const std::string differs = difference(outputs[output], expected[output], given[output], tolerance, steps);
    if (!differs.empty()) {
      return (outputs.size() == 1 ? "" : "output " + std::to_string(output) + ": ") + differs;
    }
  }
  return "";
}

}  // namespace penstock
