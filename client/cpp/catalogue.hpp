#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/client.hpp>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::link {

/// "u8", "u16", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "bool"; "" for any other type.
[[nodiscard]] std::string_view name_of(const wire::data_type& type) noexcept;
[[nodiscard]] std::optional<wire::data_type> dtype_of(std::string_view name) noexcept;

/// All inputs: `input` alone, where pipeline_info::inputs was not filled in.
[[nodiscard]] std::span<const tensor_info> inputs_of(const pipeline_info& pipeline) noexcept;

/// The content of one WELCOME. Immutable, shared by all threads.
class catalogue {
 public:
  /// `url`: the address of the answering shard, to derive the addresses of the others.
  explicit catalogue(const wire::welcome& welcome, std::string_view url = {});

  [[nodiscard]] const server_info& server() const noexcept { return server_; }
  /// A SUBMIT with at most so many payload bytes is sent in one part; 0 = none.
  [[nodiscard]] std::uint64_t inline_bytes() const noexcept { return inline_bytes_; }
  /// In the daemon's order.
  [[nodiscard]] std::vector<pipeline_info> pipelines() const;
  /// nullptr when there is no such pipeline.
  [[nodiscard]] std::shared_ptr<const pipeline_info> find(std::string_view name) const;
  /// As `find`, but throws request_error with the names of the existing pipelines.
  [[nodiscard]] std::shared_ptr<const pipeline_info> at(std::string_view name) const;
  /// Why the daemon does not serve a pipeline of its configuration; "" if it does, or has none of that name.
  [[nodiscard]] std::string why_quarantined(std::string_view name) const;
  /// The pipeline of a request, after validation. Throws request_error when there is no such pipeline, when frames,
  /// leading extent or bytes do not match, or when the pipeline keeps state and the request belongs to no session.
  [[nodiscard]] std::shared_ptr<const pipeline_info> check(std::string_view name, const client::request& request,
                                                           bool in_session) const;

 private:
  server_info server_;
  std::uint64_t inline_bytes_;
  std::vector<std::shared_ptr<const pipeline_info>> pipelines_;
  std::map<std::string, std::shared_ptr<const pipeline_info>, std::less<>> by_name_;
  std::map<std::string, std::string, std::less<>> quarantined_;  // why, by name
};

}  // namespace penstock::link
