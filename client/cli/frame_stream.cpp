#include "client/cli/frame_stream.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

std::string count_of(std::uint64_t count) {
  return count_text(static_cast<double>(count));
}

std::string throughput_text(const stream_report& report) {
  const double seconds = std::max(std::chrono::duration<double>(report.elapsed).count(), 1e-9);
  return "  throughput  " + count_text(static_cast<double>(report.result_frames) / seconds) + " frames/s, " +
         bytes_text(static_cast<double>(report.bytes_in) / seconds) + "/s in, " +
         bytes_text(static_cast<double>(report.bytes_out) / seconds) + "/s out\n";
}

std::string latency_text(const latency_histogram& latencies) {
  if (latencies.count() == 0) {
    return "";
  }
  return "  latency     p50 " + duration_text(latencies.percentile(50)) + "   p90 " +
         duration_text(latencies.percentile(90)) + "   p99 " + duration_text(latencies.percentile(99)) + "   max " +
         duration_text(latencies.max()) + "\n";
}

std::string tail_text(const stream_report& report, const tensor_info& input) {
  std::string text;
  if (report.tail_leading > 0) {
    text += "  tail        the last frame was shorter: " + count_of(static_cast<std::uint64_t>(report.tail_leading)) +
            " of " + std::to_string(input.shape.front()) + "\n";
  }
  if (report.dropped_tail_bytes > 0) {
    text += "  tail        " + count_of(report.dropped_tail_bytes) + " bytes at the end did not fill a " +
            (input.variable ? "row" : "frame of " + count_of(input.frame_bytes())) + " and were left out\n";
  }
  return text;
}

}  // namespace

std::string report_text(const stream_report& report, const pipeline_info& pipeline) {
  std::string text = count_of(report.result_frames) + " of " + count_of(report.frames) + " frames through \"" +
                     pipeline.name + "\" in " + duration_text(report.elapsed) +
                     (report.session.empty() ? "" : ", in " + report.session) + "\n" + throughput_text(report) +
                     latency_text(report.latencies) + tail_text(report, pipeline.input);
  for (const auto& [kind, count] : report.errors) {
    text += "  errors      " + count_of(count.requests) + " " + kind + ": " + count.first + "\n";
  }
  return text;
}

namespace {

/// True when no later request can succeed: the session or the pipeline is gone.
bool ends_stream(const request_error& error) {
  constexpr std::uint16_t unknown_pipeline = 0x0105;
  return error.kind() == error_kind::session_lost || error.status() == unknown_pipeline;
}

}  // namespace

frame_stream::frame_stream(submitter submit, pipeline_info pipeline, settings settings, sink results, stop_event& stop)
    : submit_(std::move(submit)),
      pipeline_(std::move(pipeline)),
      settings_(settings),
      sink_(std::move(results)),
      stop_(stop) {}

stream_report frame_stream::run(sample_source& source) {
  return run_with([&] { read_all(source); });
}

stream_report frame_stream::run(const std::function<std::optional<stream_request>()>& next) {
  return run_with([&] {
    while (!stop_.requested() && !lost_ && take_place()) {
      std::optional<stream_request> request = next();
      if (!request || lost_) {
        return;
      }
      send(std::move(*request));
    }
  });
}

stream_report frame_stream::run_with(const std::function<void()>& read) {
  begin_ = std::chrono::steady_clock::now();
  std::exception_ptr failure;
  std::thread results{[this, &failure] {
    try {
      hand_on_all();
    } catch (...) {
      failure = std::current_exception();
      stop_.request();
      const std::lock_guard lock{mutex_};
      broken_ = true;
      changed_.notify_all();
    }
  }};
  std::exception_ptr source_failure;
  try {
    read();
  } catch (...) {
    source_failure = std::current_exception();
  }
  {
    const std::lock_guard lock{mutex_};
    all_sent_ = true;
    changed_.notify_all();
  }
  results.join();
  {
    // After a failure too: completions of requests in flight use this object.
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return handed_on_ + arrivals_.size() == sent_; });
  }
  for (const std::exception_ptr& each : {failure, source_failure}) {
    if (each != nullptr) {
      std::rethrow_exception(each);
    }
  }
  report_.elapsed = std::chrono::steady_clock::now() - begin_;
  return std::move(report_);
}

void frame_stream::read_all(sample_source& source) {
  const std::size_t request = pipeline_.input.frame_bytes() * settings_.frames_per_request;
  std::vector<std::byte> bytes;
  while (!stop_.requested() && !lost_ && take_place()) {
    const std::size_t kept = bytes.size();
    bytes.resize(request);
    bytes.resize(kept + source.read(std::span{bytes}.subspan(kept), settings_.flush));
    if (lost_) {  // while it was read
      return;
    }
    const bool ended = source.ended();
    send_whole(bytes, ended);
    if (ended) {
      break;
    }
  }
  report_.dropped_tail_bytes = bytes.size();
}

/// A pipeline with variable frames takes the rest as a shorter frame.
void frame_stream::send_whole(std::vector<std::byte>& bytes, bool ended) {
  const std::size_t frame = pipeline_.input.frame_bytes();
  const std::size_t row = pipeline_.input.variable ? pipeline_.input.frame_bytes(1) : 0;
  const std::size_t whole = bytes.size() / frame;
  std::vector<std::byte> left(bytes.begin() + static_cast<std::ptrdiff_t>(whole * frame), bytes.end());
  const std::size_t rows = row == 0 ? 0 : left.size() / row;
  std::vector<std::byte> rest(left.begin() + static_cast<std::ptrdiff_t>(rows * row), left.end());
  left.resize(rows * row);
  bytes.resize(whole * frame);
  if (whole > 0) {
    send(std::move(bytes), static_cast<std::uint32_t>(whole), 0);
  }
  if (rows > 0 && (lost_ || (whole > 0 && !take_place()))) {
    rest.insert(rest.begin(), left.begin(), left.end());  // it can't be sent any more
  } else if (rows > 0) {
    report_.tail_leading = ended ? static_cast<std::int64_t>(rows) : 0;
    send(std::move(left), 1, static_cast<std::int64_t>(rows));
  }
  bytes = std::move(rest);
}

bool frame_stream::take_place() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return broken_ || sent_ - handed_on_ < settings_.in_flight; });
  return !broken_;
}

std::optional<sample_account> frame_stream::account_of_next(std::int64_t samples) {
  const std::int64_t before = std::exchange(samples_sent_, samples_sent_ + samples);
  if (!settings_.numbers) {
    return std::nullopt;
  }
  auto account = sample_account::at(settings_.numbers->index + before);
  if (settings_.numbers->time_ns) {
    account.time_ns = settings_.numbers->time_of(account.index);
    account.quality = before == 0 ? time_quality::source : time_quality::estimated;
  }
  return account;
}

void frame_stream::send(std::vector<std::byte>&& bytes, std::uint32_t frames, std::int64_t leading) {
  const std::int64_t length = leading > 0 ? leading : pipeline_.input.samples();
  send({std::move(bytes), frames, leading, account_of_next(length * frames)});
}

void frame_stream::send(stream_request&& next) {
  const std::uint32_t frames = next.frames;
  const auto kept = std::make_shared<std::vector<std::byte>>(std::move(next.bytes));
  client::request request;
  request.bytes = *kept;
  request.frames = frames;
  request.leading = next.leading;
  request.timeout = settings_.timeout;
  request.release = [kept] {};
  request.account = next.account;
  std::uint64_t sequence = 0;
  {
    const std::lock_guard lock{mutex_};
    sequence = sent_++;
    bytes_sent_ += kept->size();
  }
  report_.frames += frames;
  ++report_.requests;
  report_.bytes_in += kept->size();
  try {
    submit_(request, [this, sequence, frames](outcome&& ended) { arrived(sequence, frames, std::move(ended)); });
  } catch (request_error& refused) {
    arrived(sequence, frames, std::move(refused));
  }
}

void frame_stream::arrived(std::uint64_t sequence, std::uint32_t frames, outcome&& ended) {
  if (const auto* const error = std::get_if<request_error>(&ended); error != nullptr && ends_stream(*error)) {
    lost_ = true;
    stop_.request();  // the source may wait for samples that nobody can take
  }
  const std::lock_guard lock{mutex_};
  arrivals_.emplace(sequence, arrival{frames, std::move(ended)});
  changed_.notify_all();
}

void frame_stream::hand_on_all() {
  std::unique_lock lock{mutex_};
  for (;;) {
    const auto is_next = [this] { return !arrivals_.empty() && arrivals_.begin()->first == handed_on_; };
    changed_.wait(lock, [&] { return is_next() || (all_sent_ && handed_on_ == sent_); });
    if (!is_next()) {
      return;
    }
    arrival next = std::move(arrivals_.begin()->second);
    arrivals_.erase(arrivals_.begin());
    ++handed_on_;
    changed_.notify_all();
    const progress now{report_.result_frames + next.frames, bytes_sent_, sent_ - handed_on_,
                       std::chrono::steady_clock::now() - begin_};
    lock.unlock();
    hand_on(std::move(next));
    sink_.moved(now);
    lock.lock();
  }
}

void frame_stream::hand_on(arrival&& next) {
  if (const auto* const good = std::get_if<result>(&next.reply)) {
    report_.result_frames += next.frames;
    report_.latencies.record(good->latency());
    for (const tensor_view& output : good->outputs()) {
      report_.bytes_out += output.bytes.size();
    }
    sink_.next(*good);
    return;
  }
  const auto& error = std::get<request_error>(next.reply);
  error_count& counted = report_.errors[std::string(name_of(error.kind()))];
  if (counted.requests++ == 0) {
    counted.first = error.what();
  }
  sink_.missing(next.frames);
}

}  // namespace penstock::cli
