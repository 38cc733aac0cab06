// The main of every GoogleTest program. `--source=daemon/exec/scheduler_test` runs the tests of
// tests/daemon/exec/scheduler_test.cpp alone; `--sources` lists the sources of a program. GoogleTest's own options work
// as well.
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

/// The path of a source below tests/, without .cpp.
std::string name_of(std::string_view file) {
  constexpr std::string_view folder = "tests/";
  if (const std::size_t at = file.rfind(folder); at != std::string_view::npos) {
    file.remove_prefix(at + folder.size());
  }
  return std::string(file.substr(0, file.rfind('.')));
}

/// For each source the filter that chooses its tests.
std::map<std::string, std::string> filters() {
  std::map<std::string, std::string> found;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int suite = 0; suite < all.total_test_suite_count(); ++suite) {
    const testing::TestSuite& tests = *all.GetTestSuite(suite);
    for (int test = 0; test < tests.total_test_count(); ++test) {
      const testing::TestInfo& info = *tests.GetTestInfo(test);
      found[name_of(info.file())] += std::string(tests.name()) + '.' + info.name() + ':';
    }
  }
  return found;
}

constexpr std::string_view source_option = "--source=";

/// A report that goes to a folder has the source's name. GoogleTest looks at it when it is initialized.
void name_report(int argc, char** argv) {
  const std::string output = GTEST_FLAG_GET(output);
  for (int each = 1; each < argc && output.ends_with('/'); ++each) {
    if (const std::string_view word = argv[each]; word.starts_with(source_option)) {
      GTEST_FLAG_SET(output, output + std::string(word.substr(source_option.size())) + ".xml");
      return;
    }
  }
}

/// Only one source's tests from now on. False when there is no such source.
bool choose(const std::string& source) {
  const auto known = filters();
  const auto found = known.find(source);
  if (found == known.end()) {
    std::fprintf(stderr, "no test of tests/%s.cpp is in this program; --sources names those that are\n",
                 source.c_str());
    return false;
  }
  // A death test runs this program again, for one test.
  if (GTEST_FLAG_GET(filter) == "*") {
    GTEST_FLAG_SET(filter, found->second);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  name_report(argc, argv);
  testing::InitGoogleMock(&argc, argv);
  for (int each = 1; each < argc; ++each) {
    const std::string_view word = argv[each];
    if (word == "--sources") {
      for (const auto& [source, filter] : filters()) {
        std::puts(source.c_str());
      }
      return 0;
    }
    if (!word.starts_with(source_option)) {
      std::fprintf(stderr, "%s: --source=NAME, --sources, or an option of GoogleTest, not %s\n", argv[0], argv[each]);
      return 64;
    }
    if (!choose(std::string(word.substr(source_option.size())))) {
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
