#include <cstdio>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/proto/golden.hpp"

namespace penstock::wire::testing {
namespace {

/// PROTOCOL.md, which lies beside the folder of the golden messages.
class Document : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto file = std::filesystem::absolute(golden_folder()).lexically_normal() / ".." / "PROTOCOL.md";
    if (!std::filesystem::exists(file)) {
      GTEST_SKIP() << "PROTOCOL.md is not beside the golden messages";
    }
    const bytes text = read_file(file);
    stream_.str({reinterpret_cast<const char*>(text.data()), text.size()});
  }

  /// The bytes of the next block that begins "```hex FILE", and FILE; "" when there is none left. Each row is an
  /// offset, two spaces, and the bytes.
  std::string next_hex_block(bytes& out) {
    out.clear();
    std::string name;
    for (std::string line; std::getline(stream_, line);) {
      if (line.starts_with("```hex ")) {
        name = line.substr(7);
      } else if (!name.empty() && line.starts_with("```")) {
        return name;
      } else if (!name.empty()) {
        std::istringstream row(line.substr(line.find("  ")));
        for (unsigned value = 0; row >> std::hex >> value;) {
          out.push_back(static_cast<std::byte>(value));
        }
      }
    }
    return "";
  }

  std::istringstream stream_;
};

TEST_F(Document, ItsHexIsTheGoldenMessages) {
  int blocks = 0;
  bytes shown;
  for (std::string name = next_hex_block(shown); !name.empty(); name = next_hex_block(shown), ++blocks) {
    EXPECT_EQ(shown, read_file(golden_folder() / name)) << name;
  }
  EXPECT_GE(blocks, 4);
}

TEST_F(Document, ItsStatusTableIsTheOneOfTheCode) {
  std::vector<std::string> rows;
  for (std::string line; std::getline(stream_, line);) {
    if (line.starts_with("| 0x0") && line.find(" | `") == 8) {
      rows.push_back(line);
    }
  }
  std::vector<std::string> expected;
  for (const status_entry& row : status_table()) {
    std::array<char, 16> code{};
    std::snprintf(code.data(), code.size(), "0x%04X", static_cast<unsigned>(row.code));
    expected.push_back("| " + std::string(code.data()) + " | `" + std::string(row.name) + "` | " +
                       std::string(row.meaning) + " |");
  }
  EXPECT_EQ(rows, expected);
}

}  // namespace
}  // namespace penstock::wire::testing
