#include <ostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/daemon/pipeline/configuration_text.hpp"

namespace penstock {
namespace {

using testing::StartsWith;

/// Lines 1 to 4 of a file are the version and a pipeline's head; `lines` begin on line 5.
std::string in_pipeline(const std::string& lines) {
  return "config_version = 1\n[[pipeline]]\nname = 'p'\ninput = { dtype = 'cu8', shape = [64] }\n" + lines;
}

/// After a good first stage 'iq' (lines 5 to 8), the [[pipeline.stage]] of line 9; `lines` begin on line 10.
std::string in_stage(const std::string& lines) {
  return in_pipeline("[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'\n[[pipeline.stage]]\n" + lines);
}

struct wrong_text {
  std::string text;
  const char* complaint;  ///< after "penstock.toml:"
};
void PrintTo(const wrong_text& wrong, std::ostream* out) {
  *out << wrong.complaint;
}

class pipeline_refuse : public testing::TestWithParam<wrong_text> {};

TEST_P(pipeline_refuse, TheText) {
  EXPECT_THAT(complaint_about(GetParam().text), StartsWith(std::string("penstock.toml:") + GetParam().complaint));
}

std::string head(const std::string& lines) {
  return "config_version = 1\n[[pipeline]]\n" + lines;
}

INSTANTIATE_TEST_SUITE_P(
    heads, pipeline_refuse,
    testing::Values(
        wrong_text{head("input = 5"), "2: pipeline '#1', field 'name': is missing"},
        wrong_text{head("name = 5"), "3: pipeline '#1', field 'name': 5 is given; allowed is a string"},
        wrong_text{head("name = 'p'"), "2: pipeline 'p', field 'input': is missing"},
        wrong_text{head("name = 'p'\ninput = 'cu8'"), "4: pipeline 'p', field 'input': \"cu8\" is given; allowed is a"},
        wrong_text{head("name = 'p'\ninput = { shape = [1] }"), "4: pipeline 'p', field 'input.dtype': is missing"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u16', shape = [1] }"),
                   "4: pipeline 'p', field 'input.dtype': \"u16\" is given; allowed is one of u8, i8, i16, i32, f32, "
                   "cf32, cu8, ci8, ci16"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8' }"), "4: pipeline 'p', field 'input.shape': is missing"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = 5 }"),
                   "4: pipeline 'p', field 'input.shape': 5 is given; allowed is an array of whole numbers"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [] }"),
                   "4: pipeline 'p', field 'input.shape': an"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4, 0] }"),
                   "4: pipeline 'p', field 'input.shape': 0 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4.0] }"),
                   "4: pipeline 'p', field 'input.shape': 4.0 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [4, 'max 2'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 2\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = ['max 2x'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 2x\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = ['max 0'] }"),
                   "4: pipeline 'p', field 'input.shape': \"max 0\" is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [9223372036854775807] }"),
                   "4: pipeline 'p', field 'input.shape': 9223372036854775807 is given"},
        wrong_text{head("name = 'p'\ninput = { dtype = 'u8', shape = [1], type = 5 }"),
                   "4: pipeline 'p', field 'input.type': there is no such key; did you mean 'dtype'?"}));

INSTANTIATE_TEST_SUITE_P(
    pipelines, pipeline_refuse,
    testing::Values(
        wrong_text{in_pipeline("batch = 5"), "5: pipeline 'p', field 'batch': 5 is given; allowed is a table"},
        wrong_text{in_pipeline("batch = { max_frames = 0 }"), "5: pipeline 'p', field 'batch.max_frames': 0 is given"},
        wrong_text{in_pipeline("[pipeline.batch]\nmax_frames = 5\nmax_bytes = '8Mb'"),
                   "7: pipeline 'p', field 'batch.max_bytes': \"8Mb\" is given; allowed is a size from \"1 B\" to"},
        wrong_text{in_pipeline("batch = { max_delay = '1d' }"), "5: pipeline 'p', field 'batch.max_delay': \"1d\" is"},
        wrong_text{in_pipeline("batch = { max_frame = 1 }"),
                   "5: pipeline 'p', field 'batch.max_frame': there is no such key; did you mean 'max_frames'?"},
        wrong_text{in_pipeline("\nbatch = { max_bytes = 127 }\n[[pipeline.stage]]\nname = 'a'\nop = 'moments'"),
                   "6: pipeline 'p', field 'batch.max_bytes': a batch holds 127 bytes, less than one input frame of "
                   "cu8[64]"},
        wrong_text{in_pipeline("priority = 'urgent'"),
                   "5: pipeline 'p', field 'priority': \"urgent\" is given; allowed is one of low, normal, high"},
        wrong_text{in_pipeline("overflow = 'drop'"),
                   "5: pipeline 'p', field 'overflow': \"drop\" is given; allowed is one of reject, drop-oldest"},
        wrong_text{in_pipeline("ordered = 1"),
                   "5: pipeline 'p', field 'ordered': 1 is given; allowed is true or false"},
        wrong_text{in_pipeline("prio = 'high'"), "5: pipeline 'p', field 'prio': there is no such key; known: name, "},
        wrong_text{in_pipeline(""), "2: pipeline 'p', field 'stage': has no stage; add a [[pipeline.stage]]"},
        wrong_text{in_pipeline("[pipeline.stage]\nname = 'a'"), "5: pipeline 'p', field 'stage': a table is given"},
        wrong_text{in_pipeline("outputs = ['sq']\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': there is no stage 'sq'; did you mean 'iq'?"},
        wrong_text{in_pipeline("outputs = ['iq', 'iq']\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': 'iq' is given twice"},
        wrong_text{in_pipeline("outputs = 'input'\n[[pipeline.stage]]\nname = 'iq'\nop = 'convert'\nto = 'cf32'"),
                   "5: pipeline 'p', field 'outputs': there is no stage 'input'"},
        wrong_text{in_pipeline("outputs = []"), "5: pipeline 'p', field 'outputs': an empty array is given"},
        wrong_text{head("name = 'a/b'\ninput = { dtype = 'u8', shape = [1] }"),
                   "3: pipeline 'a/b', field 'name': 'a/b' is not a name; a name is 1 to 64 of A-Z a-z 0-9 _ . -"}));

INSTANTIATE_TEST_SUITE_P(
    stages, pipeline_refuse,
    testing::Values(
        wrong_text{in_stage("op = 'moments'"), "9: pipeline 'p', stage '#2', field 'name': is missing"},
        wrong_text{in_stage("name = 'a'"), "9: pipeline 'p', stage 'a', field 'op': is missing"},
        wrong_text{in_stage("name = 'a'\nop = 5"), "11: pipeline 'p', stage 'a', field 'op': 5 is given; allowed is a"},
        wrong_text{in_stage("name = ''\nop = 'moments'"), "10: pipeline 'p', field 'name': '' is not a name"},
        wrong_text{in_stage("name = 'iq'\nop = 'moments'"),
                   "10: pipeline 'p', stage 'iq', field 'name': a stage of this name is on line 5 already"},
        wrong_text{in_stage("name = 'input'\nop = 'moments'"),
                   "10: pipeline 'p', stage 'input', field 'name': 'input' is the pipeline's own input"},
        wrong_text{in_stage("name = 'a'\nop = 'momentum'"),
                   "11: pipeline 'p', stage 'a', field 'op': there is no operator 'momentum'; did you mean 'moments'?"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = 'qi'"),
                   "12: pipeline 'p', stage 'a', field 'from': there is no stage 'qi'; did you mean 'iq'?"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = []"),
                   "12: pipeline 'p', stage 'a', field 'from': an empty array is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = ['a']"),
                   "12: pipeline 'p', stage 'a', field 'from': the stages go round in a circle: 'a' reads from 'a'"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindw = 'hann'"),
                   "12: pipeline 'p', stage 'a', field 'windw': operator 'power_spectrum' has no such parameter; did "
                   "you mean 'window'?"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nform = 'iq'"),
                   "12: pipeline 'p', stage 'a', field 'form': operator 'power_spectrum' has no such parameter; did "
                   "you mean 'from'?"},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindow = 'han'"),
                   "12: pipeline 'p', stage 'a', field 'window': "},
        wrong_text{in_stage("name = 'a'\nop = 'power_spectrum'\nwindow = 5"),
                   "12: pipeline 'p', stage 'a', field 'window': "},
        wrong_text{in_pipeline("[[pipeline.stage]]\nname = 'a'\nop = 'power_spectrum'"),
                   "5: pipeline 'p', stage 'a', field 'from': "},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = nan"),
                   "12: pipeline 'p', stage 'a', field 'x': nan is given; allowed is true or false, a finite number"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = [1, '2']"),
                   "12: pipeline 'p', stage 'a', field 'x': \"2\" is given; allowed is an array of finite numbers"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = [[1]]"),
                   "12: pipeline 'p', stage 'a', field 'x': an array is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nx = 12:30:00"),
                   "12: pipeline 'p', stage 'a', field 'x': 12:30:00 is given"},
        wrong_text{in_stage("name = 'a'\nop = 'moments'\nfrom = 'iq'\n[[pipeline.stage]]\nname = 'b'\nop = 'moments'\n"
                            "from = 'iq'\n"),
                   "9: pipeline 'p', stage 'a': nobody takes its result"}));

TEST(pipeline_names, AreUnique) {
  const std::string again =
      "[[pipeline]]\nname = 'p'\ninput = { dtype = 'f32', shape = [16] }\n"
      "[[pipeline.stage]]\nname = 's'\nop = 'moments'\n";
  EXPECT_EQ(complaint_about("config_version = 1\n" + again + again),
            "penstock.toml:8: pipeline 'p', field 'name': a pipeline of this name is on line 2 already");
}

}  // namespace
}  // namespace penstock
