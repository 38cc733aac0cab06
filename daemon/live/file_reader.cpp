#include "daemon/live/file_reader.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/npy.hpp"
#include "base/sigmf.hpp"
#include "base/sound_file.hpp"
#include "kernels/tensor.hpp"

namespace penstock::live {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::string_view npy_magic = "\x93NUMPY";

[[noreturn]] void refuse_file(const std::string& name, const std::string& why) {
  throw std::runtime_error(name + ": " + why);
}

std::string system_error_text() {
  return std::strerror(errno);
}

/// Bytes, one after the other.
class byte_input {
 public:
  virtual ~byte_input() = default;
  /// Some of them. 0: none are there now, or (`ended`) ever.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> out) = 0;
  [[nodiscard]] virtual bool ended() const noexcept = 0;
  /// To wait for; -1 where there is no need to.
  [[nodiscard]] virtual int descriptor() const noexcept { return -1; }
};

/// A file's bytes as they are, or a pipe's.
class plain_input final : public byte_input {
 public:
  plain_input(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {
    struct stat facts {};
    is_pipe_ = ::fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode);
  }
  plain_input(std::string name, file_descriptor owned) : plain_input(std::move(name), owned.number()) {
    owned_ = std::move(owned);
  }

  [[nodiscard]] std::size_t read(std::span<std::byte> out) override {
    pollfd item{descriptor_, POLLIN, 0};
    if (is_pipe_ && ::poll(&item, 1, 0) <= 0) {
      return 0;
    }
    const ssize_t got = ::read(descriptor_, out.data(), out.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
      return 0;
    }
    if (got < 0) {
      refuse_file(name_, "can't be read: " + system_error_text());
    }
    ended_ = got == 0 && !out.empty();
    return static_cast<std::size_t>(got);
  }
  [[nodiscard]] bool ended() const noexcept override { return ended_; }
  [[nodiscard]] int descriptor() const noexcept override { return is_pipe_ ? descriptor_ : -1; }
  /// Waits for all of them; fewer only at the end.
  [[nodiscard]] std::size_t read_all(std::span<std::byte> out) {
    std::size_t got = 0;
    while (got < out.size() && !ended_) {
      pollfd item{descriptor_, POLLIN, 0};
      (void)::poll(&item, 1, -1);
      got += read(out.subspan(got));
    }
    return got;
  }

 private:
  std::string name_;
  file_descriptor owned_;
  int descriptor_;
  bool is_pipe_ = false;
  bool ended_ = false;
};

/// What libsndfile reads.
class sound_input final : public byte_input {
 public:
  explicit sound_input(file_descriptor owned) : owned_(std::move(owned)), file_(owned_.number()) {}

  [[nodiscard]] const sound_format& format() const noexcept { return file_.format(); }
  [[nodiscard]] std::size_t read(std::span<std::byte> out) override {
    const std::size_t got = file_.read(out);
    ended_ = got == 0 && out.size() >= file_.format().row_bytes();
    return got;
  }
  [[nodiscard]] bool ended() const noexcept override { return ended_; }

 private:
  file_descriptor owned_;
  sound_file file_;
  bool ended_ = false;
};

/// The name of the numbers of an element: of IQ, each has two.
std::string_view number_of(element_type type) noexcept {
  return type == element_type::cu8    ? "u8"
         : type == element_type::ci8  ? "i8"
         : type == element_type::ci16 ? "i16"
         : type == element_type::cf32 ? "f32"
                                      : name_of(type);
}

/// IQ lies in two channels.
void check_sound(const std::string& name, const sound_format& sound, const source_declaration& source) {
  if (sound.dtype != number_of(source.dtype) || sound.row_bytes() != source.sample_bytes) {
    refuse_file(name, "it holds " + sound.dtype + " in " + std::to_string(sound.channels) +
                          (sound.channels == 1 ? " channel" : " channels") + ", and pipeline '" + source.pipeline +
                          "' takes " + source.input.text() + "; a source does not convert");
  }
}

/// nullptr: it is none.
std::unique_ptr<sound_input> open_sound(file_descriptor file) {
  try {
    return std::make_unique<sound_input>(std::move(file));
  } catch (const sound_error&) {
    return nullptr;
  }
}

/// From here on, samples have these indices and times.
struct mark {
  std::uint64_t sample = 0;  ///< in the file
  std::int64_t index = 0;
  std::optional<std::int64_t> time_ns{};
  std::uint64_t epoch = 0;
};

struct opened_input {
  std::unique_ptr<byte_input> bytes;
  std::vector<mark> marks{};
};

/// One long signal, [samples, ...], or frames of it, [frames, samples, ...].
void check_array(const std::string& name, const npy_header& header, const source_declaration& source) {
  std::vector<std::int64_t> row(source.input.shape.begin() + 1, source.input.shape.end());
  if (is_complex(source.dtype) && source.dtype != element_type::cf32) {
    row.push_back(2);
  }
  const auto ends_with_row = [&](std::size_t leading) {
    return header.shape.size() == leading + row.size() &&
           std::equal(row.begin(), row.end(), header.shape.begin() + static_cast<std::ptrdiff_t>(leading));
  };
  const bool fits = ends_with_row(1) || ends_with_row(2);
  const std::string_view dtype = source.dtype == element_type::cf32 ? "c64" : number_of(source.dtype);
  if (header.descriptor != npy_descriptor_of(dtype) || header.fortran_order || !fits) {
    std::string shape;
    for (const std::int64_t each : header.shape) {
      shape += (shape.empty() ? "" : ", ") + std::to_string(each);
    }
    refuse_file(name, "it holds \"" + header.descriptor + "\" [" + shape + "]" +
                          (header.fortran_order ? " in Fortran order" : "") + ", and pipeline '" + source.pipeline +
                          "' takes " + source.input.text() + "; a source does not convert");
  }
}

file_descriptor open_file(const std::string& name, const std::filesystem::path& path) {
  file_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    refuse_file(name, "can't be opened: " + system_error_text());
  }
  return file;
}

opened_input open_sigmf(const source_declaration& source, double& rate) {
  const std::filesystem::path path = source.file();
  sigmf_meta meta;
  try {
    meta = read_sigmf(path);
  } catch (const sigmf_error& error) {
    refuse_file(source.path, error.what());
  }
  const std::string_view element = element_of_sigmf(meta.datatype);
  const std::size_t bytes = element.empty() ? 0 : size_of(element_type_of(element).value()) * meta.channels;
  if (element != name_of(source.dtype) || bytes != source.sample_bytes) {
    refuse_file(source.path, "it holds \"" + meta.datatype + "\" in " + std::to_string(meta.channels) +
                                 (meta.channels == 1 ? " channel" : " channels") + ", and pipeline '" +
                                 source.pipeline + "' takes " + source.input.text() + "; a source does not convert");
  }
  if (rate == 0) {
    rate = meta.sample_rate;
  }
  const std::filesystem::path data = sigmf_data_path(path);
  opened_input made{std::make_unique<plain_input>(data.string(), open_file(data.string(), data))};
  for (const sigmf_capture& each : complete_captures(meta)) {
    made.marks.push_back({each.sample_start, static_cast<std::int64_t>(*each.global_index), each.time_ns, *each.epoch});
  }
  return made;
}

opened_input open_input(const source_declaration& source, double& rate) {
  if (source.type == source_type::standard_input) {
    return {std::make_unique<plain_input>("standard input", STDIN_FILENO)};
  }
  const std::filesystem::path path = source.file();
  if (path.extension() == ".sigmf-meta") {
    return open_sigmf(source, rate);
  }
  if (path.extension() == ".sigmf" || path.extension() == ".sigmf-data") {
    refuse_file(source.path, "name the .sigmf-meta file of the recording");
  }
  auto plain = std::make_unique<plain_input>(source.path, open_file(source.path, path));
  if (plain->descriptor() < 0) {  // a file, which can be read twice
    std::array<std::byte, npy_magic.size()> first{};
    const std::size_t got = plain->read_all(first);
    const bool is_npy = std::string_view(reinterpret_cast<const char*>(first.data()), got) == npy_magic;
    plain = std::make_unique<plain_input>(source.path, open_file(source.path, path));
    if (is_npy) {
      try {
        check_array(source.path, read_npy_header([&plain](std::span<std::byte> out) { return plain->read_all(out); }),
                    source);
      } catch (const npy_error& error) {
        refuse_file(source.path, error.what());
      }
    } else if (auto sound = open_sound(open_file(source.path, path))) {
      check_sound(source.path, sound->format(), source);
      rate = rate == 0 ? sound->format().rate : rate;
      return {std::move(sound)};
    }
  }
  return {std::move(plain)};
}

class file_reader final : public sample_reader {
 public:
  file_reader(const source_declaration& source, opened_input input, double rate)
      : sample_bytes_(source.sample_bytes),
        chunk_(static_cast<std::size_t>(source.block)),
        input_(std::move(input)),
        rate_(rate * source.pace.times) {
    constexpr double step_s = 0.002;
    step_ = rate_ == 0 ? 1 : std::clamp<std::int64_t>(std::llround(rate_ * step_s), 1, source.block);
    buffer_.resize(chunk_ * sample_bytes_);
  }

  void descriptors(std::vector<pollfd>& wanted) const override {
    if (input_.bytes->descriptor() >= 0 && wanted_at_ == time_point::max()) {
      wanted.push_back({input_.bytes->descriptor(), POLLIN, 0});
    }
  }
  [[nodiscard]] time_point wanted_at() const override { return wanted_at_; }
  [[nodiscard]] std::string_view failure() const override { return failure_; }

  [[nodiscard]] read_progress read(sample_receiver& receiver, time_point now, time_point until) override {
    wanted_at_ = time_point::max();
    if (!stream_) {
      stream_ = receiver.stream("");
      began_ = now;
    }
    read_progress progress = read_progress::none;
    do {
      const std::size_t allowed = allowance(now);
      if (allowed == 0) {
        return progress;
      }
      const read_progress step = read_some(receiver, allowed);
      if (step != read_progress::some) {
        return step == read_progress::none ? progress : step;
      }
      progress = read_progress::some;
      now = clock::now();
    } while (now < until);
    return progress;
  }

 private:
  /// Samples that may be read now. 0: not before `wanted_at_`.
  [[nodiscard]] std::size_t allowance(time_point now) {
    if (rate_ == 0) {
      return chunk_;
    }
    constexpr auto most_behind = std::chrono::seconds{1};
    const auto due_at = [this](std::int64_t index) {
      constexpr double most_seconds = 1e9;
      const double seconds = std::min(static_cast<double>(index - first_) / rate_, most_seconds);
      return began_ + std::chrono::nanoseconds{std::llround(seconds * 1e9)};
    };
    const std::int64_t next = index_of_next();
    const time_point due = due_at(next + step_);
    if (now < due) {
      wanted_at_ = due;
      return 0;
    }
    if (now - due > most_behind) {  // it waited for the pipeline: what was missed is not hurried after
      began_ += now - due;
    }
    const double behind = std::chrono::duration<double>(now - due_at(next)).count() * rate_;
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(behind, 1.0)), 1, chunk_);
  }

  [[nodiscard]] std::int64_t index_of_next() const {
    const bool at_mark = mark_ < input_.marks.size() && input_.marks[mark_].sample == sample_;
    return at_mark ? input_.marks[mark_].index : index_;
  }

  [[nodiscard]] read_progress read_some(sample_receiver& receiver, std::size_t allowed) {
    sample_run run;
    take_mark(receiver, run);
    if (mark_ < input_.marks.size()) {
      allowed = static_cast<std::size_t>(std::min<std::uint64_t>(allowed, input_.marks[mark_].sample - sample_));
    }
    if (!stream_) {
      return read_progress::ended;
    }
    // Straight to where it will lie, where the place is known.
    const std::span<std::byte> room =
        held_ == 0 && index_ == expected_ ? receiver.room(*stream_) : std::span<std::byte>{};
    const std::span<std::byte> target = room.empty() ? std::span(buffer_) : room;
    const std::size_t most = std::min(target.size(), allowed * sample_bytes_);
    std::size_t got = 0;
    try {
      got = held_ + (held_ < most ? input_.bytes->read(target.subspan(held_, most - held_)) : 0);
    } catch (const std::exception& error) {
      failure_ = error.what();
      return read_progress::failed;
    }
    const std::size_t samples = got / sample_bytes_;
    const std::size_t rest = got % sample_bytes_;
    if (samples == 0) {
      if (input_.bytes->ended()) {
        return read_progress::ended;
      }
      std::memmove(buffer_.data(), target.data(), rest);
      held_ = rest;
      marked_ = marked_ || run.quality != time_quality::none;
      return read_progress::none;
    }
    run.bytes = target.first(samples * sample_bytes_);
    run.at = index_;
    // A part of a sample goes to where the next run is read to; it lies behind this one.
    std::array<std::byte, 256> part{};
    const std::size_t kept = std::min(rest, part.size());
    std::memcpy(part.data(), target.data() + samples * sample_bytes_, kept);
    std::vector<std::byte> long_part;
    if (rest > part.size()) {
      long_part.assign(target.begin() + static_cast<std::ptrdiff_t>(samples * sample_bytes_),
                       target.begin() + static_cast<std::ptrdiff_t>(got));
    }
    receiver.samples(*stream_, run);
    held_ = rest;
    std::memcpy(buffer_.data(), long_part.empty() ? part.data() : long_part.data(), rest);
    sample_ += samples;
    index_ += static_cast<std::int64_t>(samples);
    expected_ = index_;
    marked_ = false;
    return read_progress::some;
  }

  /// At the beginning of a capture.
  void take_mark(sample_receiver& receiver, sample_run& run) {
    for (; mark_ < input_.marks.size() && input_.marks[mark_].sample <= sample_; ++mark_) {
      const mark& next = input_.marks[mark_];
      if (sample_ == 0) {
        first_ = next.index;
      } else if (next.epoch != epoch_ && stream_) {
        receiver.epoch(*stream_, "another epoch of the recording");
        first_ += next.index - index_;  // its time goes on
        expected_ = -1;
      }
      index_ = next.index;
      epoch_ = next.epoch;
      time_ = next.time_ns;
      marked_ = next.time_ns.has_value();
    }
    if (marked_) {
      run.time_ns = *time_;
      run.quality = time_quality::source;
    }
  }

  const std::size_t sample_bytes_;
  const std::size_t chunk_;
  opened_input input_;
  const double rate_;      // of reading; 0: as fast as it goes
  std::int64_t step_ = 1;  // samples that are worth waking up for
  std::vector<std::byte> buffer_;
  std::size_t held_ = 0;  // bytes of a sample that is not whole, at the buffer's begin
  std::optional<stream_number> stream_;
  time_point began_{};
  time_point wanted_at_ = time_point::max();
  std::uint64_t sample_ = 0;    // in the file
  std::int64_t index_ = 0;      // in the recorded stream
  std::int64_t expected_ = -1;  // by the receiver
  std::int64_t first_ = 0;      // whose time is `began_`
  std::uint64_t epoch_ = 0;
  std::size_t mark_ = 0;
  bool marked_ = false;
  std::optional<std::int64_t> time_;
  std::string failure_;
};

}  // namespace

std::unique_ptr<sample_reader> make_file_reader(const source_declaration& source, double& rate) {
  opened_input input = open_input(source, rate);
  if (source.pace.times != 0 && rate == 0) {
    refuse_file(source.type == source_type::standard_input ? "standard input" : source.path,
                "its sample rate is not known: give sample_rate, or pace = \"free\"");
  }
  return std::make_unique<file_reader>(source, std::move(input), rate);
}

}  // namespace penstock::live
