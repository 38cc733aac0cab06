#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "proto/control.hpp"
#include "tests/proto/golden.hpp"

namespace penstock::wire::testing {
namespace {

__extension__ typedef unsigned __int128 wide;

/// What a receiver does with part 0: the header, then each tensor header. The first error, or none.
decode_error read_all(std::span<const std::byte> part, std::vector<tensor_header>& tensors) {
  message_header header;
  decode_error error = decode(part, header);
  for (std::size_t i = 0; error == decode_error::none && i < header.tensors; ++i) {
    error = decode_tensor(part, header, i, tensors.emplace_back());
  }
  return error;
}

decode_error read_all(std::span<const std::byte> part) {
  std::vector<tensor_header> tensors;
  return read_all(part, tensors);
}

/// A seed of its own for each run, printed, or the one that PENSTOCK_SEED names.
std::uint64_t seed() {
  const char* const given = std::getenv("PENSTOCK_SEED");
  const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "seed " << value << " (PENSTOCK_SEED repeats it)\n";
  return value;
}

void mutate(bytes& what, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  for (std::size_t changes = 1 + below(4); changes > 0 && !what.empty(); --changes) {
    switch (below(4)) {
      case 0:
        what[below(what.size())] = static_cast<std::byte>(random());
        break;
      case 1:
        what[below(what.size())] ^= static_cast<std::byte>(1U << below(8));
        break;
      case 2:  // a limit of some integer
        std::fill_n(what.begin() + static_cast<std::ptrdiff_t>(below(what.size())), 1,
                    below(2) == 0 ? std::byte{0xFF} : std::byte{0x7F});
        break;
      default:
        what.resize(below(what.size() + 1));
    }
  }
}

TEST(Robustness, EveryTruncationOfAGoldenMessageIsRefused) {
  for (const auto& entry : golden_index().at("messages")) {
    SCOPED_TRACE(entry.at("name"));
    const bytes part = parts_of(entry).front();
    const std::size_t headers = part.size() - inline_payloads(part, header_of(entry)).size();
    for (std::size_t length = 0; length < headers; ++length) {
      const guarded_bytes cut(std::span{part}.first(length));
      EXPECT_NE(read_all(cut.view()), decode_error::none) << length << " bytes";
    }
    EXPECT_EQ(read_all(guarded_bytes(part).view()), decode_error::none);
  }
}

TEST(Robustness, EveryTruncationOfAGoldenBodyIsRefused) {
  for (const auto& entry : golden_index().at("messages")) {
    const auto parts = parts_of(entry);
    for (std::size_t length = 0; entry.contains("body") && length < parts.at(1).size(); ++length) {
      const guarded_bytes cut(std::span{parts[1]}.first(length));
      EXPECT_FALSE(decode_hello(cut.view()) || decode_welcome(cut.view()) || decode_error_body(cut.view()) ||
                   decode_open_session(cut.view()) || decode_session_opened(cut.view()) || decode_attach(cut.view()) ||
                   decode_attached(cut.view()) || decode_subscribe(cut.view()) || decode_subscribed(cut.view()) ||
                   decode_publisher(cut.view()) || decode_set_values(cut.view()) || decode_values(cut.view()))
          << entry.at("name") << ", " << length << " bytes";
    }
  }
}

TEST(Robustness, AlignmentDoesNotMatter) {
  for (const bytes& part : all_heads()) {
    std::vector<tensor_header> expected;
    const decode_error error = read_all(part, expected);
    alignas(64) std::array<std::byte, 8192> memory{};
    ASSERT_LE(part.size() + 64, memory.size());
    for (std::size_t offset = 0; offset < 64; ++offset) {
      std::copy(part.begin(), part.end(), memory.begin() + static_cast<std::ptrdiff_t>(offset));
      std::vector<tensor_header> tensors;
      EXPECT_EQ(read_all(std::span{memory}.subspan(offset, part.size()), tensors), error);
      EXPECT_EQ(tensors, expected) << "offset " << offset;
    }
  }
}

TEST(Robustness, WhatAMutatedMessageIsTakenForIsConsistent) {
  std::mt19937_64 random(seed());
  const std::vector<bytes> heads = all_heads();
  std::size_t taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    bytes part = heads[random() % heads.size()];
    mutate(part, random);
    const guarded_bytes guarded(part);
    std::vector<tensor_header> tensors;
    if (read_all(guarded.view(), tensors) != decode_error::none) {
      continue;
    }
    ++taken;
    message_header header;
    ASSERT_EQ(decode(guarded.view(), header), decode_error::none);
    const std::span<const std::byte> behind = inline_payloads(guarded.view(), header);
    ASSERT_EQ(header.header_len + 80U * header.tensors + behind.size(), part.size());
    ASSERT_EQ(behind.data() + behind.size(), guarded.view().data() + part.size());
    for (const tensor_header& tensor : tensors) {
      // 128-bit arithmetic as the independent judge of shape × item size.
      wide product = tensor.type.item_bytes();
      for (const std::int64_t extent : tensor.extents()) {
        ASSERT_GE(extent, 0);
        product = std::min<wide>(product * static_cast<std::uint64_t>(extent), UINT64_MAX);
      }
      ASSERT_EQ(static_cast<std::uint64_t>(product), tensor.bytes);
    }
  }
  EXPECT_GT(taken, 0U);
}

TEST(Robustness, WhatAMutatedBodyIsTakenForCanBeEncodedAgain) {
  std::mt19937_64 random(seed());
  std::vector<bytes> bodies;
  for (const auto& entry : golden_index().at("messages")) {
    if (entry.contains("body")) {
      bodies.push_back(parts_of(entry).at(1));
    }
  }
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span{text}); };
  for (int round = 0; round < 20'000; ++round) {
    bytes body = bodies[random() % bodies.size()];
    mutate(body, random);
    const guarded_bytes guarded(body);
    if (const auto hello = decode_hello(guarded.view())) {
      ASSERT_TRUE(decode_hello(bytes_of(encode(*hello))));
    }
    if (const auto welcome = decode_welcome(guarded.view())) {
      ASSERT_TRUE(decode_welcome(bytes_of(encode(*welcome))));
    }
    if (const auto error = decode_error_body(guarded.view())) {
      ASSERT_TRUE(decode_error_body(bytes_of(encode(*error))));
    }
    if (const auto open = decode_open_session(guarded.view())) {
      ASSERT_TRUE(decode_open_session(bytes_of(encode(*open))));
    }
    if (const auto opened = decode_session_opened(guarded.view())) {
      ASSERT_TRUE(decode_session_opened(bytes_of(encode(*opened))));
    }
    if (const auto wanted = decode_attach(guarded.view())) {
      ASSERT_TRUE(decode_attach(bytes_of(encode(*wanted))));
    }
    if (const auto found = decode_attached(guarded.view())) {
      ASSERT_TRUE(decode_attached(bytes_of(encode(*found))));
    }
    if (const auto asked = decode_subscribe(guarded.view())) {
      ASSERT_TRUE(decode_subscribe(bytes_of(encode(*asked))));
    }
    if (const auto granted = decode_subscribed(guarded.view())) {
      ASSERT_TRUE(decode_subscribed(bytes_of(encode(*granted))));
    }
    if (const auto source = decode_publisher(guarded.view())) {
      ASSERT_TRUE(decode_publisher(bytes_of(encode(*source))));
    }
    if (const auto wanted = decode_set_values(guarded.view())) {
      ASSERT_TRUE(decode_set_values(bytes_of(encode(*wanted))));
    }
    if (const auto values = decode_values(guarded.view())) {
      ASSERT_TRUE(decode_values(bytes_of(encode(*values))));
    }
  }
}

}  // namespace
}  // namespace penstock::wire::testing
