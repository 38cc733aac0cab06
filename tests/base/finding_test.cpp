#include "base/finding.hpp"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using ::testing::HasSubstr;

const finding good{.check = "clock source", .found = "tsc", .needed = "tsc"};
const finding warning{.check = "open files",
                      .level = severity::warning,
                      .found = "1024 may be open",
                      .needed = "4200",
                      .why = "each client takes one: beyond the limit the next clients can't connect to the daemon",
                      .todo = "LimitNOFILE=4200"};
const finding error{.check = "endpoint", .level = severity::error, .found = "taken", .why = "w", .todo = "t"};

TEST(Findings, TheWorstOfThemIsTheExitCode) {
  EXPECT_EQ(exit_code_of({}), 0);
  EXPECT_EQ(exit_code_of({good, good}), 0);
  EXPECT_EQ(exit_code_of({good, warning, good}), 1);
  EXPECT_EQ(exit_code_of({error, warning}), 2);
}

TEST(Findings, TheTextFits80ColumnsAndExplainsOnlyWhatIsNotWell) {
  finding long_one = warning;
  long_one.found = "a/path/without/any/place/to/break/it/that/is/longer/than/the/line/could/ever/be/in/80/columns";
  const std::string text = text_of({good, warning, error});
  EXPECT_EQ(text.find("ok       clock source       tsc\nWARNING  open files         1024 may be open\n"), 0U) << text;
  EXPECT_THAT(text,
              HasSubstr("\n           needed           4200\n           why              each client takes one:"));
  EXPECT_THAT(text, HasSubstr("\n1 error, 1 warning, 3 checks\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
  EXPECT_THAT(text_of({long_one}), HasSubstr(long_one.found));
}

TEST(Findings, JsonReadsBackAsItWasWritten) {
  const std::string json = json_of({good, warning, error});
  EXPECT_THAT(json, HasSubstr("\"exit_code\": 2"));
  const auto read = read_findings(json);
  ASSERT_TRUE(read);
  EXPECT_EQ(text_of(*read), text_of({good, warning, error}));
  EXPECT_EQ(json_of(*read), json);
}

TEST(Findings, WhatIsNoFindingsIsRefused) {
  for (const char* const text : {"", "penstockd: usage", "{}", R"({"findings": 3})", R"({"findings": [{}]})",
                                 R"({"findings": [{"check": "c", "severity": "grave", "found": "", "needed": "",
                                     "why": "", "todo": ""}]})"}) {
    EXPECT_FALSE(read_findings(text)) << text;
  }
}

}  // namespace
}  // namespace penstock
