#include "daemon/code/compiler_messages.hpp"

#include <array>
#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace penstock {
namespace {

void put(std::string& to, std::string_view text) {
  const std::uint64_t size = text.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to.append(text);
}

template <class Texts>
void put_all(std::string& to, const Texts& texts) {
  put(to, std::to_string(texts.size()));
  for (const auto& each : texts) {
    put(to, std::string(each));
  }
}

/// Takes texts off the front of another.
class text_reader {
 public:
  explicit text_reader(std::string_view text) : left_(text) {}

  std::string take() {
    std::uint64_t size = 0;
    if (left_.size() < sizeof size) {
      whole_ = false;
      return {};
    }
    std::memcpy(&size, left_.data(), sizeof size);
    left_.remove_prefix(sizeof size);
    if (size > left_.size()) {
      whole_ = false;
      return {};
    }
    std::string taken(left_.substr(0, size));
    left_.remove_prefix(size);
    return taken;
  }

  template <class Text>
  std::vector<Text> take_all() {
    std::vector<Text> all;
    for (std::size_t left = number(); left > 0 && whole_; --left) {
      all.emplace_back(take());
    }
    return all;
  }

  std::size_t number() {
    const std::string digits = take();
    return digits.empty() ? 0 : static_cast<std::size_t>(std::strtoul(digits.c_str(), nullptr, 10));
  }

  [[nodiscard]] bool whole() const noexcept { return whole_ && left_.empty(); }

 private:
  std::string_view left_;
  bool whole_ = true;
};

}  // namespace

std::string encode_request(const compile_request& request) {
  std::string text;
  put(text, std::to_string(static_cast<int>(request.code.kind)));
  put(text, request.code.name);
  put(text, request.code.text);
  put(text, request.code.entry);
  put_all(text, request.code.options);
  put_all(text, request.code.include);
  put(text, request.architecture);
  return text;
}

std::optional<compile_request> decode_request(std::string_view text) {
  text_reader reader(text);
  compile_request request;
  request.code.kind = static_cast<code_kind>(reader.number());
  request.code.name = reader.take();
  request.code.text = reader.take();
  request.code.entry = reader.take();
  request.code.options = reader.take_all<std::string>();
  request.code.include = reader.take_all<std::filesystem::path>();
  request.architecture = reader.take();
  return reader.whole() ? std::optional(std::move(request)) : std::nullopt;
}

std::string encode_reply(const compile_reply& reply) {
  std::string text;
  put(text, std::to_string(static_cast<int>(reply.status)));
  put(text, reply.message);
  put(text, reply.code.binary);
  put(text, reply.code.symbol);
  put(text, reply.code.log);
  put(text, reply.compiler);
  return text;
}

std::optional<compile_reply> decode_reply(std::string_view text) {
  text_reader reader(text);
  compile_reply reply;
  reply.status = static_cast<compile_status>(reader.number());
  reply.message = reader.take();
  reply.code.binary = reader.take();
  reply.code.symbol = reader.take();
  reply.code.log = reader.take();
  reply.compiler = reader.take();
  return reader.whole() ? std::optional(std::move(reply)) : std::nullopt;
}

std::string framed(std::string_view text) {
  std::string whole;
  put(whole, text);
  return whole;
}

std::optional<std::string_view> framed_text(std::string_view received) {
  std::uint64_t size = 0;
  if (received.size() < sizeof size) {
    return std::nullopt;
  }
  std::memcpy(&size, received.data(), sizeof size);
  received.remove_prefix(sizeof size);
  return size <= received.size() ? std::optional(received.substr(0, size)) : std::nullopt;
}

std::optional<std::string> read_framed(int descriptor) {
  std::string received;
  std::array<char, 65536> piece{};
  for (;;) {
    if (const std::optional<std::string_view> text = framed_text(received)) {
      return std::string(*text);
    }
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return std::nullopt;
    }
    received.append(piece.data(), count < 0 ? 0 : static_cast<std::size_t>(count));
  }
}

}  // namespace penstock
