#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/client.hpp>

#include "proto/control.hpp"

namespace penstock::link {

/// What one WELCOME said, immutable: shared by every thread.
class catalogue {
 public:
  /// `url`: where it came from, which other shards' addresses are found by.
  explicit catalogue(const wire::welcome& from, std::string_view url = {});

  [[nodiscard]] const server_info& server() const noexcept { return server_; }
  /// A SUBMIT of at most so many payload bytes is sent in one part.
  [[nodiscard]] std::uint64_t inline_bytes() const noexcept { return inline_bytes_; }
  /// In the daemon's order.
  [[nodiscard]] std::vector<pipeline_info> pipelines() const;
  /// nullptr when there is none of that name.
  [[nodiscard]] std::shared_ptr<const pipeline_info> find(std::string_view name) const;
  /// As find, but throws request_error, which names those that there are.
  [[nodiscard]] std::shared_ptr<const pipeline_info> at(std::string_view name) const;
  /// The pipeline that a request names. Throws request_error when there is none, when the request's frames, leading
  /// extent or bytes are not what it takes, or when it keeps state and the request belongs to no session.
  [[nodiscard]] std::shared_ptr<const pipeline_info> check(std::string_view name, const client::request& what,
                                                           bool in_session) const;

 private:
  server_info server_;
  std::uint64_t inline_bytes_;
  std::vector<std::shared_ptr<const pipeline_info>> pipelines_;
  std::map<std::string, std::shared_ptr<const pipeline_info>, std::less<>> by_name_;
};

}  // namespace penstock::link
