#include "daemon/code/stage_code.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/daemon/code/made_up_cubin.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

parameters stage(const std::string& name, const std::string& text) {
  parameters made;
  made.set("file", std::make_shared<const code_file>(
                       code_file{.name = name, .path = "/etc/penstock/" + name, .text = text, .headers = "headers"}));
  made.set("grid", std::vector<std::string>{"frames"});
  made.set("block", std::vector<std::string>{"n0"});
  made.set("args", std::vector<std::string>{"in", "out", "i32 n0"});
  return made;
}

const std::vector<tensor_spec> inputs{{element_type::f32, {64}, false}};

/// The field and the message with which it is refused.
std::string complaint(const parameters& settings) {
  try {
    (void)with_machine_code(settings, inputs, "sm_90", {});
  } catch (const parameter_error& error) {
    return error.field + " " + error.what();
  } catch (const code_error& error) {
    return error.what();
  }
  return "";
}

parameters of_kernel(const testing::made_up_kernel& kernel) {
  return stage("agc.cubin", testing::made_up_cubin(90).add(kernel).text());
}

TEST(StageCode, IsWhatTheStageSays) {
  parameters settings = stage("agc.cu", "source");
  settings.set("entry", std::string("agc<float>"));
  settings.set("options", std::vector<std::string>{"--use_fast_math"});
  settings.set("include", std::vector<std::string>{"include"});
  const user_code code = code_of(settings);
  EXPECT_EQ(code.kind, code_kind::cuda);
  EXPECT_EQ(code.name, "/etc/penstock/agc.cu");
  EXPECT_EQ(code.text, "source");
  EXPECT_EQ(code.entry, "agc<float>");
  EXPECT_EQ(code.options, std::vector<std::string>{"--use_fast_math"});
  EXPECT_EQ(code.include, std::vector<std::filesystem::path>{"/etc/penstock/include"});
  EXPECT_EQ(code.headers, "headers");
  EXPECT_EQ(code_of(stage("agc.ptx", "")).kind, code_kind::ptx);
  EXPECT_EQ(code_of(stage("agc.cubin", "")).kind, code_kind::cubin);
}

TEST(StageCode, NeedsAFileOfAKnownKind) {
  EXPECT_EQ(complaint(stage("agc.cpp", "")),
            "file \"agc.cpp\" is given; allowed are files that end in .cu, .ptx or .cubin");
}

TEST(StageCode, TakesNoHeadersThatNobodyHasJudged) {
  for (const std::string option : {"-I/tmp", "--include-path=/tmp", "-include=x.h", "--pre-include=x.h"}) {
    parameters settings = stage("agc.cu", "source");
    settings.set("options", std::vector<std::string>{option});
    EXPECT_EQ(complaint(settings), "options has \"" + option + "\": name folders of headers in `include`");
  }
}

TEST(StageCode, ChecksTheArgumentsAgainstTheKernel) {
  EXPECT_EQ(complaint(of_kernel({"agc", {8, 8, 4}})), "");
  EXPECT_EQ(complaint(of_kernel({"agc", {8, 8}})), "args has 3, and the kernel takes 2 parameters");
  EXPECT_EQ(complaint(of_kernel({"agc", {8, 8, 8}})),
            "args has \"i32 n0\", of 4 bytes, as its number 3; that parameter of the kernel has 8");
}

TEST(StageCode, SaysWhatTheKernelUses) {
  const parameters made = with_machine_code(of_kernel({"agc", {8, 8, 4}, 24, 16, 1024 + 512}), inputs, "sm_90", {});
  EXPECT_EQ(made.text("symbol"), "agc");
  EXPECT_EQ(code_text(made, "sm_90"),
            "kernel agc for sm_90: 24 registers, 512 bytes of shared memory, 16 bytes of stack and spilled registers");
}

TEST(StageCode, NamesAFileThatIsNoMachineCode) {
  EXPECT_THAT(complaint(stage("agc.cubin", "text")), HasSubstr("/etc/penstock/agc.cubin: it is not a cubin"));
}

TEST(StageCode, IsAskedForOnlyWhereThereIsSome) {
  EXPECT_TRUE(request_of(stage("agc.cu", "source"), "sm_90"));
  EXPECT_FALSE(request_of(stage("agc.cpp", "source"), "sm_90"));
  EXPECT_FALSE(request_of(parameters(), "sm_90"));
}

}  // namespace
}  // namespace penstock
