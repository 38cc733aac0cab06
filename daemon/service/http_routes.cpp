#include "daemon/service/http_routes.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "base/quantity.hpp"
#include "daemon/service/metrics.hpp"
#include "daemon/telemetry/report.hpp"
#include "penstock_version.hpp"
#include "proto/chrome_trace.hpp"
#include "proto/message.hpp"

namespace penstock {

namespace {

std::string silent_shards(const shard_answers& shards) {
  std::string found;
  for (std::size_t number = 0; number < shards.size(); ++number) {
    if (!shards[number]) {
      found += (found.empty() ? "no answer in time from shard " : ", ") + std::to_string(number);
    }
  }
  return found;
}

health_check check(std::string name, std::string wrong, std::string right) {
  const bool passed = wrong.empty();
  return {std::move(name), passed, passed ? std::move(right) : std::move(wrong)};
}

health_check device_check(const shard_answers& shards) {
  std::string wrong;
  for (const auto& each : shards) {
    if (each && !each->device_error.empty()) {
      wrong += fmt::format("{}the device of shard {} failed: {}{}{}", wrong.empty() ? "" : "; ", each->shard,
                           each->device_error, each->suspects.empty() ? "" : ", suspect: ", each->suspects);
    }
  }
  return check("device", std::move(wrong), "no error");
}

health_check places_check(const shard_answers& shards) {
  std::string wrong;
  for (const auto& each : shards) {
    if (each && (each->short_of_clients || each->short_of_sessions)) {
      wrong += fmt::format(
          "{}shard {} has no room for another {}", wrong.empty() ? "" : "; ", each->shard,
          each->short_of_clients ? "client (clients.max_clients, limits.memory)" : "session (sessions.max_sessions)");
    }
  }
  return check("places", std::move(wrong), "nobody is turned away");
}

health_check progress_check(const shard_answers& shards, std::chrono::nanoseconds patience) {
  std::string wrong;
  std::size_t idle = 0;
  std::chrono::nanoseconds longest{0};
  for (const auto& each : shards) {
    if (!each) {
      continue;
    }
    idle += each->batches_in_flight == 0 ? 1U : 0U;
    longest = std::max(longest, each->standing_still);
    if (each->standing_still > patience) {
      wrong +=
          fmt::format("{}shard {} has {} batches on its device and finished none for {:.1f} s",
                      wrong.empty() ? "" : "; ", each->shard, each->batches_in_flight, seconds(each->standing_still));
    }
  }
  return check("progress", std::move(wrong),
               idle == shards.size() ? "idle" : fmt::format("the last batch was done {:.3f} s ago", seconds(longest)));
}

}  // namespace

health_check liveness_of(const shard_answers& shards, daemon_state state, const daemon_vitals& vitals) {
  const std::string silent = silent_shards(shards);
  return check(
      "shards",
      state == daemon_state::draining ? ""
      : silent.empty()                ? vitals.dead
                                      : silent,
      state == daemon_state::draining ? "draining" : fmt::format("{} of {} answer", shards.size(), shards.size()));
}

std::vector<health_check> readiness_of(const shard_answers& shards, daemon_state state,
                                       std::chrono::nanoseconds patience, const daemon_vitals& vitals) {
  return {check("started", state == daemon_state::starting ? "still starting" : "", "all shards serve"),
          check("not draining", state == daemon_state::draining ? "draining: new requests are answered SHUTDOWN" : "",
                "takes new requests"),
          check("shards", silent_shards(shards), fmt::format("{} of {} answer", shards.size(), shards.size())),
          device_check(shards),
          progress_check(shards, patience),
          places_check(shards),
          check("descriptors", vitals.shortage, "new connections find one"),
          check("threads", vitals.late, "each gives signs of life")};
}

bool all_passed(const std::vector<health_check>& checks) {
  return std::all_of(checks.begin(), checks.end(), [](const health_check& each) { return each.passed; });
}

std::string print_checks(const std::vector<health_check>& checks) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const health_check& each : checks) {
    list.push_back({{"name", each.name}, {"passed", each.passed}, {"reason", each.reason}});
  }
  return nlohmann::ordered_json{{"ready", all_passed(checks)}, {"checks", list}}.dump() + "\n";
}

namespace {

constexpr const char* json_type = "application/json";
// That of Prometheus's text format.
constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::chrono::nanoseconds default_last = std::chrono::seconds{5};

http_reply plain(unsigned status, std::string text) {
  return {.status = status, .body = std::move(text) + "\n"};
}

http_reply json_reply(unsigned status, const nlohmann::ordered_json& body) {
  return {.status = status,
          .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
          .type = json_type};
}

}  // namespace

api::api(parts components)
    : parts_(std::move(components)), started_at_(parts_.now()), started_(std::chrono::system_clock::now()) {}

std::span<const api::route> api::routes() {
  static constexpr std::array<route, 8> table{
      {{"GET", "/livez", "", "200 while every thread comes round", &api::live},
       {"GET", "/readyz", "", "200 while new work is taken, else 503; each check with its reason", &api::ready},
       {"GET", "/metrics", "", "for Prometheus", &api::scrape},
       {"GET", "/api/v1/status", "", "all counters as JSON", &api::status},
       {"GET", "/api/v1/trace", "?last=5s", "the last batches, for https://ui.perfetto.dev", &api::trace},
       {"GET", "/api/v1/values", "?pipeline=NAME", "the tunable numbers of a pipeline", &api::values},
       {"POST", "/api/v1/set", "?pipeline=NAME&set=...",
        "POST with X-Penstock: 1 changes them: set=STAGE.NAME:VALUE,...; everywhere=1 for all sessions", &api::set},
       {"POST", "/api/v1/reload", "", "POST with X-Penstock: 1 reads the configuration again", &api::reload}}};
  return table;
}

std::string api::overview() {
  std::string text = "penstockd\n";
  for (const route& each : routes()) {
    text += fmt::format("{:<38} {}\n", std::string(each.path) + std::string(each.query), each.help);
  }
  return text;
}

void api::answer(const http_request& request, replier done) {
  for (const route& each : routes()) {
    if (each.path != request.path) {
      continue;
    }
    if (each.method != request.method) {
      http_reply refusal = plain(405, request.path + " takes " + std::string(each.method));
      refusal.allow = each.method == "GET" ? "GET, HEAD" : each.method;
      done(std::move(refusal));
      return;
    }
    (this->*each.handler)(request, std::move(done));
    return;
  }
  const bool is_top = request.path == "/" && request.method == "GET";
  done(is_top ? http_reply{.body = overview()} : plain(404, "there is no such path; / lists them"));
}

void api::live(const http_request&, replier done) {
  parts_.reports.ask([this, done = std::move(done)](const auto& shards) {
    const health_check found = liveness_of(*shards, state_, vitals());
    done(plain(found.passed ? 200 : 503, found.reason));
  });
}

void api::ready(const http_request&, replier done) {
  parts_.reports.ask([this, done = std::move(done)](const auto& shards) {
    const std::vector<health_check> checks = readiness_of(*shards, state_, parts_.patience, vitals());
    done({.status = all_passed(checks) ? 200U : 503U, .body = print_checks(checks), .type = json_type});
  });
}

void api::scrape(const http_request&, replier done) {
  parts_.reports.ask([this, done = std::move(done)](const auto& shards) {
    parts_.measured.take({state_, started_, parts_.now() - started_at_}, *shards);
    done({.status = 200, .body = parts_.measured.print(), .type = metrics_type});
  });
}

void api::status(const http_request&, replier done) {
  parts_.reports.ask([this, done = std::move(done)](const auto& shards) {
    done({.status = 200,
          .body = print_status({state_, started_, parts_.now() - started_at_}, *shards),
          .type = json_type});
  });
}

void api::trace(const http_request& request, replier done) {
  const auto given = request.query.find("last");
  const quantity<std::chrono::nanoseconds> last = given == request.query.end()
                                                      ? quantity<std::chrono::nanoseconds>{default_last, ""}
                                                      : parse_duration(given->second);
  if (!last) {
    done(plain(400, "last must be a duration, such as 5s or 500ms: " + last.fault));
  } else if (parts_.traces.is_busy()) {
    done(plain(409, "another timeline is being made"));
  } else {
    parts_.traces.collect(parts_.shards(), *last, [done = std::move(done)](std::string made) {
      done(made.empty() ? plain(500, "no timeline could be made; the log says why")
                        : http_reply{.status = 200, .body = std::move(made), .type = json_type});
    });
  }
}

void api::reload(const http_request&, replier done) {
  if (state_ == daemon_state::draining) {
    done(json_reply(503, {{"error", "the daemon is draining"}}));
    return;
  }
  if (reloading_) {
    done(json_reply(409, {{"error", "another reload is running"}}));
    return;
  }
  if (!parts_.reload) {
    done(json_reply(501, {{"error", "this daemon can't reload"}}));
    return;
  }
  reloading_ = true;
  parts_.reload([this, done = std::move(done)](const reload_outcome& made) {
    reloading_ = false;
    nlohmann::ordered_json body{{"version", made.version}, {"hash", made.hash}, {"changed", made.changed}};
    if (!made.error.empty()) {
      body["error"] = made.error;
    }
    done(json_reply(made.error.empty() ? 200 : 422, body));
  });
}

namespace {

std::string member(const http_request& request, const char* key) {
  const auto found = request.query.find(key);
  return found == request.query.end() ? "" : found->second;
}

/// "find.high:0.5,find.low:default"; nullopt if it is nothing like that.
std::optional<std::vector<wire::number_setting>> parse_numbers(std::string_view text) {
  std::vector<wire::number_setting> made;
  while (!text.empty()) {
    const std::string_view each = text.substr(0, text.find(','));
    text.remove_prefix(std::min(each.size() + 1, text.size()));
    const std::size_t colon = each.rfind(':');
    const std::size_t dot = each.substr(0, colon).rfind('.');
    if (colon == each.npos || dot == each.npos) {
      return std::nullopt;
    }
    wire::number_setting& setting = made.emplace_back();
    setting.stage = each.substr(0, dot);
    setting.name = each.substr(dot + 1, colon - dot - 1);
    std::string_view value = each.substr(colon + 1);
    if (value == "default") {
      continue;
    }
    value.remove_prefix(value.starts_with('+') ? 1 : 0);
    setting.value = parse_number<double>(value);
    if (!setting.value) {
      return std::nullopt;
    }
  }
  return made;
}

}  // namespace

void api::values(const http_request& request, replier done) {
  set_numbers(member(request, "pipeline"), {}, false, std::move(done));
}

void api::set(const http_request& request, replier done) {
  std::optional<std::vector<wire::number_setting>> wanted = parse_numbers(member(request, "set"));
  if (!wanted || wanted->empty()) {
    done(json_reply(400, {{"error",
                           "set must be STAGE.NAME:VALUE, or several of these with commas between them; a "
                           "value is a number, or \"default\" for that of the configuration"}}));
    return;
  }
  set_numbers(member(request, "pipeline"), *std::move(wanted), member(request, "everywhere") == "1", std::move(done));
}

// Every shard has the same pipelines, and the same numbers of them: all take a change, or none.
void api::set_numbers(const std::string& pipeline, std::vector<wire::number_setting> wanted, bool everywhere,
                      replier done) {
  if (!parts_.set_numbers) {
    done(json_reply(501, {{"error", "this daemon can't change numbers"}}));
    return;
  }
  const bool changes = !wanted.empty();
  parts_.set_numbers(
      pipeline, std::move(wanted), everywhere,
      [done = std::move(done), pipeline, changes, everywhere](const auto& shards) {
        nlohmann::ordered_json values = nlohmann::ordered_json::array();
        for (const auto& each : shards) {
          if (each && !each->refused.empty()) {
            done(json_reply(422, {{"error", each->refused}}));
            return;
          }
        }
        for (std::size_t number = 0; number < shards.size(); ++number) {
          if (!shards[number]) {
            done(json_reply(504, {{"error", fmt::format("shard {} did not answer within {} s{}", number,
                                                        admin_endpoint::patience.count(),
                                                        changes ? ", and sets them when it goes on" : "")}}));
            return;
          }
        }
        std::string text;
        if (!shards.empty()) {
          for (const wire::number_report& each : shards.front()->values) {
            values.push_back({{"stage", each.stage}, {"name", each.name}, {"value", each.value}});
            text += fmt::format("{}{}.{} = {}", text.empty() ? "" : ", ", each.stage, each.name, each.value);
          }
        }
        if (changes) {
          spdlog::info("pipeline '{}' was set over HTTP{}: {}", pipeline, everywhere ? ", in all sessions" : "", text);
        }
        done(json_reply(200, {{"values", std::move(values)}}));
      });
}

namespace {

using clock = std::chrono::steady_clock;

// What is not request for; nobody reads it.
timeline_page no_page() {
  return {};
}

}  // namespace

admin_endpoint::admin_endpoint(boost::asio::io_context& admin, std::deque<shard_thread>& shards,
                               const settings& settings, reloader reload, std::function<daemon_vitals()> vitals)
    : shards_(shards),
      shard_query_(admin, shards),
      reports_(
          [this](std::function<void(shard_answers)> done) {
            shard_query_.ask<shard_report>(
                patience, [](shard& shard) { return shard.report(); }, std::move(done));
          },
          clock::now),
      traces_(admin,
              [this](const trace_collector::cursors& from, std::function<void(timeline_answers)> done) {
                shard_query_.ask<timeline_page>(
                    patience,
                    [from](shard& shard) {
                      const std::optional<std::uint64_t>& cursor = from[shard.number()];
                      return cursor ? shard.trace(*cursor) : no_page();
                    },
                    std::move(done));
              }),
      api_({reports_, traces_, metrics_, std::move(reload), clock::now, settings.stream_pool.hang_timeout / 2,
            [this] { return shards_.size(); }, std::move(vitals),
            [this](const std::string& pipeline, std::vector<wire::number_setting> wanted, bool everywhere,
                   std::function<void(std::vector<std::optional<shard::numbers_outcome>>)> done) {
              shard_query_.ask<shard::numbers_outcome>(
                  patience,
                  [pipeline, wanted = std::move(wanted), everywhere](shard& shard) {
                    return shard.set_numbers(pipeline, wanted, everywhere);
                  },
                  std::move(done));
            }}),
      server_(admin, settings.admin, [this](const http_request& request, std::function<void(http_reply)> done) {
        api_.answer(request, std::move(done));
      }) {}

void admin_endpoint::start() {
  api_.set(daemon_state::ready);
  server_.start();
}

}  // namespace penstock
