#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/load.hpp"
#include "penstock_version.hpp"

namespace penstock::cli {
namespace {

using json = nlohmann::ordered_json;

struct bench_options {
  load_settings load;
  std::string size = "1";
  std::string json_file;
};

/// Turns --size into frames, or into a shorter leading extent of one frame where the pipeline takes that.
void apply_size(const std::string& size, const pipeline_info& pipeline, load_settings& load) {
  const std::size_t frame = pipeline.frame_bytes();
  if (frame == 0) {
    throw std::runtime_error("the pipeline's input " + pipeline.input.text() + " is not known to this version");
  }
  const bool is_count = size.find_first_not_of("0123456789") == std::string::npos && !size.empty() && size.size() < 9;
  std::optional<std::size_t> bytes;
  if (!is_count) {
    const auto sized = parse_size(size);
    if (!sized.value) {
      throw std::runtime_error("--size is a number of frames, or bytes such as 64KiB, not \"" + size +
                               "\": " + sized.fault);
    }
    bytes = *sized.value;
  }
  load.frames = is_count ? static_cast<std::uint32_t>(std::stoul(size))
                         : static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*bytes / frame, 1, UINT32_MAX));
  if (bytes && *bytes < frame && pipeline.input.variable) {
    load.leading = std::max<std::int64_t>(static_cast<std::int64_t>(*bytes / pipeline.frame_bytes(1)), 1);
  }
  load.request_bytes = load.frames * pipeline.frame_bytes(load.leading);
  if (bytes && *bytes != load.request_bytes) {
    std::cerr << "penstock: " << size << " is no whole number of frames of " << frame << " bytes; sending "
              << load.request_bytes << " bytes\n";
  }
}

/// Limits the closed loop to the granted credits.
void apply_credits(const server_info& server, load_settings& load) {
  const std::uint64_t by_bytes = server.credit_bytes / std::max<std::size_t>(load.request_bytes, 1);
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(server.credit_requests, by_bytes));
  if (most == 0) {
    throw std::runtime_error("requests of " + size_text(load.request_bytes) +
                             " are more than the daemon grants a client");
  }
  if (load.rate <= 0 && load.in_flight > most) {
    std::cerr << "penstock: the credits allow " << most << " requests in flight, not " << load.in_flight << "\n";
    load.in_flight = most;
  }
}

/// A pipeline with state needs sessions.
void apply_state(const pipeline_info& pipeline, load_settings& load) {
  load.sessions = std::max(load.sessions, pipeline.keeps_state ? 1 : 0);
}

json json_of(const load_settings& load, const load_report& report, double seconds) {
  const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e3; };
  json errors = json::object();
  for (const auto& [kind, count] : report.errors) {
    errors[kind] = count.requests;
  }
  json latency = json::object();
  for (const auto& [name, percent] :
       {std::pair{"p50", 50.0}, std::pair{"p90", 90.0}, std::pair{"p99", 99.0}, std::pair{"p99.9", 99.9}}) {
    latency[name] = microseconds(report.latencies.percentile(percent));
  }
  latency["max"] = microseconds(report.latencies.max());
  latency["mean"] = microseconds(report.latencies.mean());
  const auto requests = static_cast<double>(report.requests);
  return {{"version", version},
          {"pipeline", load.pipeline},
          {"loop", load.rate > 0 ? "open" : "closed"},
          {"clients", load.clients},
          {"sessions", load.sessions},
          {"in_flight", load.in_flight},
          {"rate", load.rate},
          {"frames_per_request", load.frames},
          {"request_bytes", load.request_bytes},
          {"seconds", seconds},
          {"requests", report.requests},
          {"requests_per_s", requests / seconds},
          {"frames_per_s", requests * load.frames / seconds},
          {"input_bytes_per_s", requests * static_cast<double>(load.request_bytes) / seconds},
          {"output_bytes_per_s", static_cast<double>(report.bytes_out) / seconds},
          {"latency_us", std::move(latency)},
          {"unshared_requests", report.unshared},
          {"errors", std::move(errors)}};
}

std::string sessions_text(const load_settings& load) {
  if (load.sessions == 0) {
    return "";
  }
  return " with " + std::to_string(load.sessions) + (load.sessions == 1 ? " session" : " sessions") +
         (load.clients == 1 ? "" : " each");
}

void print(const load_settings& load, const load_report& report, double seconds) {
  const auto requests = static_cast<double>(report.requests);
  const auto at = [&report](double percent) { return duration_text(report.latencies.percentile(percent)); };
  std::cout << "\"" << load.pipeline << "\", " << load.clients << (load.clients == 1 ? " client" : " clients")
            << sessions_text(load) << ", " << load.frames << (load.frames == 1 ? " frame, " : " frames, ")
            << size_text(load.request_bytes) << " a request, ";
  if (load.rate > 0) {
    std::cout << "open loop at " << count_text(load.rate) << " requests/s\n";
  } else {
    std::cout << "closed loop with " << load.in_flight << " in flight each\n";
  }
  std::cout << "  throughput  " << count_text(requests / seconds) << " requests/s, "
            << count_text(requests * load.frames / seconds) << " frames/s, "
            << bytes_text(requests * static_cast<double>(load.request_bytes) / seconds) << "/s in, "
            << bytes_text(static_cast<double>(report.bytes_out) / seconds) << "/s out\n";
  if (report.requests > 0) {
    std::cout << "  latency     p50 " << at(50) << "   p90 " << at(90) << "   p99 " << at(99) << "   p99.9 " << at(99.9)
              << "   max " << duration_text(report.latencies.max()) << "\n";
  }
  if (report.unshared > 0) {
    std::cout << "  transport   " << count_text(static_cast<double>(report.unshared))
              << " requests found no room in shared memory and went through the socket\n";
  }
  if (load.rate > 0) {
    std::cout << "              from when each request was meant to leave\n";
  }
  for (const auto& [kind, count] : report.errors) {
    std::cout << "  errors      " << count_text(static_cast<double>(count.requests)) << " " << kind << ": "
              << count.first << "\n";
  }
}

/// Begins with shared memory for a few large requests: lent frames are copied once a larger memory replaces theirs.
void apply_shared_memory(const server_info& server, const pipeline_info& pipeline, load_settings& load) {
  std::uint64_t request = load.request_bytes;
  for (const tensor_info& output : pipeline.outputs) {
    request += load.frames * output.frame_bytes();
  }
  load.connection.shared_bytes = std::max(load.connection.shared_bytes, server.shared_bytes);
  const std::uint64_t wanted = (std::min<std::uint64_t>(load.in_flight, 8) + 2) * request;
  load.connection.shared_at_first = std::max(load.connection.shared_at_first, std::min(wanted, server.shared_bytes));
}

int bench(const global_options& global, const bench_options& options) {
  load_settings load = options.load;
  load.connection = client_options_of(global);
  load.connection.name = "penstock-bench";
  {
    client daemon{load.connection};
    const pipeline_info pipeline = pipeline_of(daemon, load.pipeline);
    apply_size(options.size, pipeline, load);
    apply_state(pipeline, load);
    apply_credits(daemon.server(), load);
    apply_shared_memory(daemon.server(), pipeline, load);
  }
  const load_report report = load.rate > 0 ? run_open_loop(load) : run_closed_loop(load);
  const double seconds = std::chrono::duration<double>(report.elapsed).count();
  print(load, report, seconds);
  if (!options.json_file.empty()) {
    std::ofstream out{options.json_file};
    out << json_of(load, report, seconds).dump(2) << "\n";
    if (!out) {
      throw std::runtime_error("can't write " + options.json_file + ": " + std::strerror(errno));
    }
  }
  return report.errors.empty() && report.requests > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

void declare_bench(CLI::App& app, const global_options& global, action& chosen) {
  auto* const command = app.add_subcommand(
      "bench",
      "Measures a pipeline with random frames.\n"
      "Without --rate the loop is closed: each client keeps --in-flight requests under way. With --rate it is open:\n"
      "requests leave on time whatever happens, and latency counts from when each was meant to leave.");
  const auto options = std::make_shared<bench_options>();
  load_settings& load = options->load;
  command->add_option("-p,--pipeline", load.pipeline, "Which pipeline; `penstock info` lists them")
      ->type_name("NAME")
      ->required();
  command->add_option("--size", options->size, "Of a request: frames (16), or bytes (64KiB)")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--clients", load.clients, "Connections")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--sessions", load.sessions,
                   "Sessions of each client, in turn; one if not given and the pipeline keeps state")
      ->check(CLI::Range(1, 65536).description(""))
      ->type_name("N");
  command->add_option("--in-flight", load.in_flight, "Closed loop: requests under way of each client")
      ->check(CLI::Range(1, 1'000'000).description(""))
      ->type_name("N")
      ->capture_default_str();
  add_rate(*command, load.rate, "Open loop: requests a second, of all clients together")->type_name("R");
  add_duration(*command, "--duration", load.duration, "How long to measure");
  add_duration(*command, "--warmup", load.warmup, "How long to run before measuring");
  command->add_option("--json", options->json_file, "Write the figures into this file too")->type_name("FILE");
  command->callback([&global, &chosen, options] { chosen = [&global, options] { return bench(global, *options); }; });
}

}  // namespace penstock::cli
