#include "daemon/admin/http/api.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/admin/http/health.hpp"
#include "daemon/admin/http/status_json.hpp"
#include "proto/quantity/quantity.hpp"

namespace penstock {
namespace {

constexpr const char* json_type = "application/json";
// That of Prometheus's text format.
constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::chrono::nanoseconds default_last = std::chrono::seconds{5};

constexpr std::string_view overview = R"(penstockd
/livez               200 while every thread comes round
/readyz              200 while new work is taken, else 503; each check with its reason
/metrics             for Prometheus
/api/v1/status       all counters as JSON
/api/v1/trace?last=5s    the last batches, for https://ui.perfetto.dev
/api/v1/reload       POST with X-Penstock: 1 reads the configuration again
)";

http_reply plain(unsigned status, std::string text) {
  return {.status = status, .body = std::move(text) + "\n"};
}

http_reply json_reply(unsigned status, const nlohmann::ordered_json& body) {
  return {.status = status,
          .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
          .type = json_type};
}

}  // namespace

api::api(parts of) : of_(std::move(of)), started_at_(of_.now()), started_(std::chrono::system_clock::now()) {}

void api::answer(const http_request& asked, replier done) {
  struct entry {
    std::string_view path;
    std::string_view method;
    route to;
  };
  static constexpr std::array<entry, 6> routes{{{"/livez", "GET", &api::live},
                                                {"/readyz", "GET", &api::ready},
                                                {"/metrics", "GET", &api::scrape},
                                                {"/api/v1/status", "GET", &api::status},
                                                {"/api/v1/trace", "GET", &api::trace},
                                                {"/api/v1/reload", "POST", &api::reload}}};
  for (const entry& each : routes) {
    if (each.path != asked.path) {
      continue;
    }
    if (each.method != asked.method) {
      http_reply refusal = plain(405, asked.path + " takes " + std::string(each.method));
      refusal.allow = each.method == "GET" ? "GET, HEAD" : each.method;
      done(std::move(refusal));
      return;
    }
    (this->*each.to)(asked, std::move(done));
    return;
  }
  const bool top = asked.path == "/" && asked.method == "GET";
  done(top ? http_reply{.body = std::string(overview)} : plain(404, "there is no such path; / lists them"));
}

void api::live(const http_request&, replier done) {
  of_.reports.ask([this, done = std::move(done)](const auto& shards) {
    const health_check found = liveness_of(*shards, state_, vitals());
    done(plain(found.passed ? 200 : 503, found.reason));
  });
}

void api::ready(const http_request&, replier done) {
  of_.reports.ask([this, done = std::move(done)](const auto& shards) {
    const std::vector<health_check> checks = readiness_of(*shards, state_, of_.patience, vitals());
    done({.status = all_passed(checks) ? 200U : 503U, .body = print_checks(checks), .type = json_type});
  });
}

void api::scrape(const http_request&, replier done) {
  of_.reports.ask([this, done = std::move(done)](const auto& shards) {
    of_.measured.take({state_, started_, of_.now() - started_at_}, *shards);
    done({.status = 200, .body = of_.measured.print(), .type = metrics_type});
  });
}

void api::status(const http_request&, replier done) {
  of_.reports.ask([this, done = std::move(done)](const auto& shards) {
    done(
        {.status = 200, .body = print_status({state_, started_, of_.now() - started_at_}, *shards), .type = json_type});
  });
}

void api::trace(const http_request& asked, replier done) {
  const auto given = asked.query.find("last");
  const quantity<std::chrono::nanoseconds> last =
      given == asked.query.end() ? quantity<std::chrono::nanoseconds>{default_last, ""} : parse_duration(given->second);
  if (!last) {
    done(plain(400, "last must be a duration, such as 5s or 500ms: " + last.fault));
  } else if (of_.traces.is_busy()) {
    done(plain(409, "another timeline is being made"));
  } else {
    of_.traces.collect(of_.shards(), *last, [done = std::move(done)](std::string made) {
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
  if (!of_.reload) {
    done(json_reply(501, {{"error", "this daemon can't reload"}}));
    return;
  }
  reloading_ = true;
  of_.reload([this, done = std::move(done)](const reload_outcome& made) {
    reloading_ = false;
    nlohmann::ordered_json body{{"version", made.version}, {"hash", made.hash}, {"changed", made.changed}};
    if (!made.error.empty()) {
      body["error"] = made.error;
    }
    done(json_reply(made.error.empty() ? 200 : 422, body));
  });
}

}  // namespace penstock
