#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "proto/message.hpp"

namespace penstock::wire::testing {

using bytes = std::vector<std::byte>;

/// Where the golden messages are: $PENSTOCK_GOLDEN, else where they were when the tests were built.
[[nodiscard]] std::filesystem::path golden_folder();
/// A whole file. Throws when it can't be read.
[[nodiscard]] bytes read_file(const std::filesystem::path& file);

/// index.json, read once: "messages", "malformed", "bad_bodies", "bad_places" and "bad_payloads". Throws when it can't
/// be read.
[[nodiscard]] const nlohmann::json& golden_index();
/// The parts of one entry of the index.
[[nodiscard]] std::vector<bytes> parts_of(const nlohmann::json& entry);
/// Part 0 of every golden message and of every malformed one.
[[nodiscard]] std::vector<bytes> all_heads();

/// What an entry says that its header is.
[[nodiscard]] message_header header_of(const nlohmann::json& entry);
/// What an entry says that its tensor headers are.
[[nodiscard]] std::vector<tensor_header> tensors_of(const nlohmann::json& entry);
/// What an entry of a SUBMIT_SHARED says that its place is.
[[nodiscard]] shared_place place_of(const nlohmann::json& entry);
/// What an entry with an account says that it is.
[[nodiscard]] sample_account account_of(const nlohmann::json& entry);
/// The decode_error of that name.
[[nodiscard]] decode_error error_of(const std::string& name);

/// A copy of some bytes that ends where memory ends: the page behind the last byte can't be read, so that a reader
/// that goes one byte too far dies at once, with or without a sanitizer.
class guarded_bytes {
 public:
  explicit guarded_bytes(std::span<const std::byte> content);
  ~guarded_bytes();
  guarded_bytes(const guarded_bytes&) = delete;
  guarded_bytes& operator=(const guarded_bytes&) = delete;

  [[nodiscard]] std::span<const std::byte> view() const noexcept { return view_; }

 private:
  std::byte* mapped_;
  std::size_t mapped_bytes_;
  std::span<const std::byte> view_;
};

}  // namespace penstock::wire::testing
