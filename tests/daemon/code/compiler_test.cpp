#include "daemon/code/compiler.hpp"

#include <string>

#include <gtest/gtest.h>

#include "daemon/code/compiler_messages.hpp"

namespace penstock {
namespace {

constexpr const char* source = R"(
template <class T> __global__ void twice(const T* in, T* out) { out[threadIdx.x] = in[threadIdx.x] + in[threadIdx.x]; }
extern "C" __global__ void sum(const float* in, float* out, int n, double factor) {
  __shared__ float tile[64];
  tile[threadIdx.x % 64] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) { float all = 0; for (int i = 0; i < n; ++i) all += tile[i % 64]; out[0] = all * (float)factor; }
}
)";

user_code cuda_code(std::string entry, std::string text = source) {
  return {code_kind::cuda, "code.cu", std::move(text), std::move(entry), {}, {}};
}

TEST(CompilerMessages, ComeBackAsTheyWere) {
  compile_request request{cuda_code("twice<float>"), "sm_90"};
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

TEST(Cubin, IsRefusedIfItIsNone) {
  EXPECT_THROW((void)usage_of("no machine code at all, though it is longer than a header of an ELF file"), code_error);
  EXPECT_THROW((void)usage_of(""), code_error);
}

}  // namespace
}  // namespace penstock
