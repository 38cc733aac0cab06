#include "daemon/code/compiler.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "daemon/code/code_cache.hpp"
#include "daemon/code/compiler_messages.hpp"
#include "tests/daemon/code/made_up_cubin.hpp"
#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

user_code cuda_code(std::string entry, std::string text) {
  return {code_kind::cuda, "code.cu", std::move(text), std::move(entry), {}, {}, {}};
}

user_code machine(std::string entry, const testing::made_up_cubin& file) {
  return {code_kind::cubin, "code.cubin", file.text(), std::move(entry), {}, {}, {}};
}

/// What `compile` throws; "" if nothing.
std::string complaint(const user_code& code, const compiler_settings& settings = {},
                      const std::string& architecture = "sm_90") {
  try {
    (void)compile(code, architecture, settings);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(CompilerMessages, ComeBackAsTheyWere) {
  compile_request request{cuda_code("twice<float>", "source"), "sm_90"};
  request.code.options = {"--use_fast_math", ""};
  request.code.include = {"/a/b"};
  const auto read = decode_request(encode_request(request));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->code.text, request.code.text);
  EXPECT_EQ(read->code.entry, request.code.entry);
  EXPECT_EQ(read->code.options, request.code.options);
  EXPECT_EQ(read->code.include, request.code.include);
  EXPECT_EQ(read->architecture, "sm_90");
  const std::string text = encode_request(request);
  for (std::size_t size = 0; size < text.size(); size += 7) {
    EXPECT_FALSE(decode_request(text.substr(0, size))) << size;
  }
}

TEST(Compiler, TakesTheArchitectureThatPtxOfOneArchitectureAloneNames) {
  const auto ptx = [](std::string target) {
    return user_code{code_kind::ptx, "code.ptx", ".version 8.7\n.target " + target + "\n", "", {}, {}};
  };
  EXPECT_EQ(target_of(ptx("sm_90a"), "sm_90"), "sm_90a");
  EXPECT_EQ(target_of(ptx("sm_90a, debug"), "sm_90"), "sm_90a");
  EXPECT_EQ(target_of(ptx("sm_90a"), "sm_90a"), "sm_90a");
  EXPECT_EQ(target_of(ptx("sm_90"), "sm_90"), "sm_90");
  EXPECT_EQ(target_of(ptx("sm_80"), "sm_90"), "sm_90");
  EXPECT_EQ(target_of(ptx("sm_90a"), "sm_100"), "sm_100");
  EXPECT_EQ(target_of({code_kind::ptx, "code.ptx", "no target", "", {}, {}}, "sm_90"), "sm_90");
  EXPECT_EQ(target_of(cuda_code("", "\n.target sm_90a\n"), "sm_90"), "sm_90");
}

TEST(CompilerMessages, AnswersComeBackAsTheyWere) {
  const compile_reply reply{compile_status::code_is_wrong, "line 3", {"binary", "symbol", "log"}, "/lib/libnvrtc.so"};
  const auto read = decode_reply(encode_reply(reply));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status, compile_status::code_is_wrong);
  EXPECT_EQ(read->message, "line 3");
  EXPECT_EQ(read->code.binary, "binary");
  EXPECT_EQ(read->code.symbol, "symbol");
  EXPECT_EQ(read->code.log, "log");
  EXPECT_EQ(read->compiler, "/lib/libnvrtc.so");
}

TEST(CompilerMessages, AreWholeOnceTheirLengthHasCome) {
  const std::string text = framed("abc");
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(framed_text(text.substr(0, size))) << size;
  }
  EXPECT_EQ(framed_text(text + "more"), "abc");
}

TEST(Compiler, TakesTheKernelThatIsMeant) {
  const auto two = testing::made_up_cubin(90).add({"agc", {8}}).add({"_Z4gainPKfPf", {8, 8}});
  EXPECT_EQ(compile(machine("agc", two), "sm_90", {}).symbol, "agc");
  EXPECT_EQ(compile(machine("gain", two), "sm_90", {}).symbol, "_Z4gainPKfPf");
  EXPECT_EQ(compile(machine("", testing::made_up_cubin(90).add({"agc", {8}})), "sm_90a", {}).symbol, "agc");
  EXPECT_EQ(complaint(machine("", two)), "code.cubin: it has several kernels: agc, gain; say which in entry");
  EXPECT_EQ(complaint(machine("agd", two)), "code.cubin: there is no kernel 'agd'; it has agc, gain");
  EXPECT_EQ(complaint(machine("", testing::made_up_cubin(90))), "code.cubin: it has no kernel");
}

TEST(Compiler, RefusesMachineCodeOfAnotherArchitecture) {
  EXPECT_THAT(complaint(machine("", testing::made_up_cubin(80).add({"agc", {8}}))),
              HasSubstr("code.cubin: it is for sm_80, and the device is sm_90: compile it for that"));
}

TEST(Compiler, NamesKernelsAsPeopleDo) {
  EXPECT_EQ(readable_name("agc"), "agc");
  EXPECT_EQ(readable_name("_Z4gainPKfPf"), "gain");
  EXPECT_EQ(readable_name("_Z5twiceIfEvPKT_PS0_"), "twice<float>");
}

/// A program in the compiler's place.
class OtherCompiler : public ::testing::Test {
 protected:
  /// A script of the shell.
  [[nodiscard]] compiler_settings runs(const std::string& script) {
    const std::filesystem::path file = folder_.path() / "compiler";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    ::chmod(file.c_str(), 0700);
    compiler_settings settings;
    settings.program = file;
    return settings;
  }
  /// Answers each request with this cubin, and counts how often it was started.
  [[nodiscard]] compiler_settings answers(const testing::made_up_cubin& file) {
    const compile_reply reply{compile_status::done, "", {file.text(), "", ""}, (folder_.path() / "compiler").string()};
    std::ofstream(folder_.path() / "answer", std::ios::binary) << framed(encode_reply(reply));
    const std::string place = folder_.path().string();
    // The first bytes of a request have come once `head` ends.
    return runs("echo started >> " + place + "/starts; head -c 8 > /dev/null; cat " + place + "/answer");
  }
  [[nodiscard]] int starts() const {
    std::ifstream file(folder_.path() / "starts");
    int count = 0;
    for (std::string line; std::getline(file, line);) {
      ++count;
    }
    return count;
  }
  [[nodiscard]] std::filesystem::path cache() const { return folder_.path() / "cache"; }

  testing::temporary_folder folder_;
};

TEST_F(OtherCompiler, MayCrash) {
  EXPECT_THAT(complaint(cuda_code("", ""), runs("kill -SEGV $$")), HasSubstr("code.cu: the compiler crashed on it ("));
  EXPECT_EQ(complaint(cuda_code("", ""), runs("exit 7")),
            "the compiler's process ended with 7 and gave no answer about code.cu");
}

TEST_F(OtherCompiler, MayNeverEnd) {
  compiler_settings endless = runs("exec sleep 1000");
  endless.time_limit = std::chrono::seconds(1);
  EXPECT_EQ(complaint(cuda_code("", ""), endless), "code.cu: its compilation took longer than 1 s and was ended");
}

TEST_F(OtherCompiler, MayBeMissing) {
  compiler_settings settings;
  settings.program = folder_.path() / "none";
  EXPECT_THAT(complaint(cuda_code("", ""), settings), HasSubstr("can't be started: No such file or directory"));
}

TEST_F(OtherCompiler, IsNotAskedForWhatIsCached) {
  compiler_settings settings = answers(testing::made_up_cubin(90).add({"agc", {8}}));
  ASSERT_EQ(code_cache::prepare(cache()), "");
  settings.cache = cache();
  EXPECT_EQ(compile(cuda_code("", "source"), "sm_90", settings).symbol, "agc");
  EXPECT_EQ(compile(cuda_code("", "source"), "sm_90", settings).symbol, "agc");
  EXPECT_EQ(starts(), 1);
  (void)compile(cuda_code("", "other source"), "sm_90", settings);
  (void)compile(cuda_code("", "source"), "sm_80", settings);
  user_code fast = cuda_code("", "source");
  fast.options = {"--use_fast_math"};
  (void)compile(fast, "sm_90", settings);
  user_code other_headers = cuda_code("", "source");
  other_headers.headers = "changed";
  (void)compile(other_headers, "sm_90", settings);
  EXPECT_EQ(starts(), 5);
}

TEST_F(OtherCompiler, IsAskedAgainAfterItsFileHasChanged) {
  compiler_settings settings = answers(testing::made_up_cubin(90).add({"agc", {8}}));
  ASSERT_EQ(code_cache::prepare(cache()), "");
  settings.cache = cache();
  (void)compile(cuda_code("", "source"), "sm_90", settings);
  std::ofstream(folder_.path() / "compiler", std::ios::app) << "# another version\n";
  (void)compile(cuda_code("", "source"), "sm_90", settings);
  EXPECT_EQ(starts(), 2);
}

TEST_F(OtherCompiler, IsAskedOnceAheadForTheSame) {
  compiler_settings settings = answers(testing::made_up_cubin(90).add({"agc", {8}}));
  const compile_request one{cuda_code("", "source"), "sm_90"};
  const compile_request wrong{cuda_code("missing", "source"), "sm_90"};
  const std::array requests{one, wrong, one};
  settings.ahead = compile_ahead(requests, settings);
  const int before = starts();
  EXPECT_EQ(compile(one.code, "sm_90", settings).symbol, "agc");
  EXPECT_THAT(complaint(wrong.code, settings), HasSubstr("there is no kernel 'missing'"));
  EXPECT_EQ(starts(), before);
}

}  // namespace
}  // namespace penstock
