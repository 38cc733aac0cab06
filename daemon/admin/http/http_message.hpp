#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace penstock {

/// A request that has passed the guard: its form, its Host and, where it would change something, its X-Penstock.
struct http_request {
  std::string method{};                        ///< "GET" also for HEAD, of which the server sends no body
  std::string path{};                          ///< without the query
  std::map<std::string, std::string> query{};  ///< as given; the last of two with one name
};

struct http_reply {
  unsigned status = 200;
  std::string body{};
  std::string type = "text/plain; charset=utf-8";
  std::string allow{};  ///< of 405: which methods the path has
};

/// Answers one request: it calls `done` exactly once, at once or later, on the same thread.
using http_handler = std::function<void(const http_request& asked, std::function<void(http_reply)> done)>;

/// How much of others a server takes.
struct http_limits {
  std::size_t connections = 64;
  std::uint32_t header_bytes = 8U << 10U;
  std::size_t body_bytes = std::size_t{4} << 10U;
  /// From being ready for a request to having read all of it; the wait between two requests counts.
  std::chrono::milliseconds read_timeout = std::chrono::seconds{30};
  std::chrono::milliseconds write_timeout = std::chrono::seconds{30};
  /// At the end, for answers that are being made or sent.
  std::chrono::milliseconds stop_timeout = std::chrono::seconds{1};
};

}  // namespace penstock
