#include "kernels/kernel.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/element_codec.hpp"

namespace penstock {
namespace {

using ::testing::HasSubstr;

using source = kernel_argument::source;
using texts = std::vector<std::string>;

const tensor_spec frame{element_type::f32, {100, 3}, false};
const tensor_spec variable{element_type::f32, {64, 2}, true};

parameters stage(const texts& args) {
  parameters made;
  made.set("grid", texts{"ceil(n0 / 32)", "frames"});
  made.set("block", std::vector<double>{32});
  made.set("args", args);
  return made;
}

parameters with(parameters made, std::string key, parameters::value value) {
  made.set(std::move(key), std::move(value));
  return made;
}

std::shared_ptr<const parameters> table(std::initializer_list<std::pair<std::string, parameters::value>> values) {
  auto made = std::make_shared<parameters>();
  for (const auto& [key, value] : values) {
    made->set(key, value);
  }
  return made;
}

/// The field and the message with which it is refused; "" if it is not.
std::string complaint(const parameters& settings, const std::vector<tensor_spec>& inputs = {frame}) {
  try {
    (void)parse_kernel(settings, inputs);
  } catch (const parameter_error& error) {
    return error.field + " " + error.what();
  }
  return "";
}

template <class Value>
Value number_of(const kernel_argument& argument) {
  Value value;
  std::memcpy(&value, argument.number.data(), sizeof value);
  return value;
}

TEST(Kernel, ComputesItsLaunchFromTheBatch) {
  const kernel_settings made =
      parse_kernel(with(stage({"in", "out"}), "shared", std::string("4 * n1 * 32")), std::vector{frame});
  const kernel_extents extents(frame, {.frames = 7, .leading = 100});
  EXPECT_EQ(made.grid[0].value(extents.values()), 4);
  EXPECT_EQ(made.grid[1].value(extents.values()), 7);
  EXPECT_EQ(made.grid[2].value(extents.values()), 1);
  EXPECT_EQ(made.block[0].value(extents.values()), 32);
  EXPECT_EQ(made.shared.value(extents.values()), 384);
}

TEST(Kernel, KnowsTheLengthOfFramesInTheBatch) {
  const kernel_settings made = parse_kernel(stage({"in", "out", "n0"}), std::vector{variable});
  const kernel_extents extents(variable, {.frames = 2, .leading = 50});
  EXPECT_EQ(made.arguments[2].expression.value(extents.values()), 50);
}

TEST(Kernel, GetsItsArgumentsInOrder) {
  parameters settings = stage({"in1", "out", "frames", "i32 n0 * n1", "f32 gain", "u8 flag", "table", "f64* table"});
  settings.set("values", table({{"gain", 0.5}, {"flag", std::int64_t{3}}, {"table", std::vector<double>{1, 2, 3}}}));
  const std::vector<kernel_argument> made = parse_kernel(settings, std::vector{frame, frame}).arguments;
  ASSERT_EQ(made.size(), 8U);
  EXPECT_EQ(made[0].from, source::input);
  EXPECT_EQ(made[0].index, 1U);
  EXPECT_EQ(made[1].from, source::output);
  EXPECT_EQ(made[2].from, source::expression);
  EXPECT_EQ(made[2].bytes, 8U);
  EXPECT_EQ(made[3].bytes, 4U);
  EXPECT_EQ(made[3].expression.value(kernel_extents(frame, {.frames = 1, .leading = 100}).values()), 300);
  EXPECT_EQ(made[4].from, source::number);
  EXPECT_EQ(number_of<float>(made[4]), 0.5F);
  EXPECT_EQ(made[5].bytes, 1U);
  EXPECT_EQ(number_of<std::uint8_t>(made[5]), 3);
  EXPECT_EQ(made[6].from, source::array);
  EXPECT_EQ(made[6].array.size(), 3 * sizeof(float));
  EXPECT_EQ(made[7].array.size(), 3 * sizeof(double));
}

TEST(Kernel, RefusesArgumentsThatAreNone) {
  EXPECT_EQ(complaint(stage({"in"})), "args has no \"out\": the kernel could not write its result");
  EXPECT_EQ(complaint(stage({"in1", "out"})), "args has \"in1\", and the stage reads from 1");
  EXPECT_EQ(complaint(stage({"session", "out"})), "args has \"session\", and the stage has no `state`");
  EXPECT_THAT(complaint(stage({std::string(kernel_numbers), "out"})), HasSubstr("args \"<numbers>\""))
      << "they are there for tuned maps alone";
  EXPECT_EQ(complaint(stage({"f32 gain", "out"})), "args has \"f32 gain\", and `values` has no 'gain'");
  EXPECT_EQ(complaint(stage({"gain", "out"})),
            "args \"gain\" has an unknown name 'gain' (known: frames, n0, n1), at letter 1");
  const auto values = table({{"gain", 0.5}, {"table", std::vector<double>{1}}, {"none", std::vector<double>{}}});
  EXPECT_EQ(complaint(with(stage({"gain", "out"}), "values", values)),
            "args has \"gain\": say the type of the number, such as \"f32 gain\"");
  EXPECT_EQ(complaint(with(stage({"f32 table", "out"}), "values", values)),
            "args has \"f32 table\", and 'table' is an array: write \"f32* table\"");
  EXPECT_EQ(complaint(with(stage({"none", "out"}), "values", values)), "values 'none' is an empty array");
  EXPECT_NE(complaint(stage({})), "");
  EXPECT_NE(complaint(stage(texts(17, "out"))), "");
}

TEST(Kernel, TakesFramesOfFixedShapesAloneInWaves) {
  const parameters made = with(stage({"in", "in1", "out", "state", "new_state"}), "state",
                               table({{"bytes", std::int64_t{8}}, {"order", std::string("waves")}}));
  EXPECT_EQ(complaint(made, {frame, frame}), "");
  EXPECT_EQ(complaint(made, {frame, variable}),
            "state with order = \"waves\" needs frames of one fixed shape, not f32[max 64, 2]");
}

TEST(Kernel, SaysWhereAnExpressionIsWrong) {
  EXPECT_EQ(complaint(with(stage({"in", "out"}), "grid", texts{"n0 /"})),
            "grid \"n0 /\" ends where a number is wanted, at letter 5");
  EXPECT_EQ(complaint(with(stage({"in", "out"}), "shared", std::string("4 * m"))),
            "shared \"4 * m\" has an unknown name 'm' (known: frames, n0, n1), at letter 5");
  EXPECT_EQ(complaint(with(stage({"in", "out"}), "block", texts{})),
            "block must be a list of 1 to 3 expressions, such as [\"ceil(n0 / 256)\", \"frames\"]");
}

TEST(Kernel, MakesTheOutputThatIsDeclared) {
  EXPECT_EQ(parse_kernel(stage({"in", "out"}), std::vector{frame}).outputs.front().spec, frame);
  const auto output = table({{"dtype", std::string("i32")}, {"shape", texts{"n0 * 2", "5"}}});
  const tensor_spec made =
      parse_kernel(with(stage({"in", "out"}), "output", output), std::vector{frame}).outputs.front().spec;
  EXPECT_EQ(made, (tensor_spec{element_type::i32, {200, 5}, false}));
  const auto same = table({{"shape", texts{"n0", "1"}}});
  EXPECT_TRUE(
      parse_kernel(with(stage({"in", "out"}), "output", same), std::vector{variable}).outputs.front().spec.variable);
}

TEST(Kernel, RefusesOutputsThatCannotBe) {
  const auto refused = [](std::initializer_list<std::pair<std::string, parameters::value>> output,
                          const tensor_spec& input) {
    return complaint(with(stage({"in", "out"}), "output", table(output)), {input});
  };
  EXPECT_EQ(refused({{"dtype", std::string("f31")}}, frame).substr(0, 33), "output has an unknown dtype \"f31\"");
  EXPECT_EQ(refused({{"shape", texts{"frames"}}}, frame),
            "output = \"frames\" depends on the batch: an extent depends on fixed ones, or is \"n0\"");
  EXPECT_EQ(refused({{"shape", texts{"n1", "n0"}}}, variable),
            "output = \"n0\" depends on the batch: an extent depends on fixed ones, or is \"n0\"");
  EXPECT_EQ(refused({{"shape", texts{"n0 - 100"}}}, frame), "output = \"n0 - 100\" is 0, less than 1");
  EXPECT_EQ(refused({{"shape", texts(9, "1")}}, frame), "output has a shape of 9 extents; allowed are 1 to 8");
}

TEST(Kernel, KeepsStateOfAFixedSize) {
  const auto stateful = [](const parameters::value& bytes, const char* steps) {
    return with(stage({"in", "out", "session"}), "state", table({{"bytes", bytes}, {"steps", std::string(steps)}}));
  };
  const parameters rows = stateful(std::string("4 * n1"), "rows");
  EXPECT_EQ(parse_kernel(rows, std::vector{variable}).state_bytes, 8U);
  EXPECT_FALSE(kernel_session(rows, std::vector{variable})->whole_frames);
  EXPECT_TRUE(kernel_session(stateful(std::int64_t{16}, "frames"), std::vector{frame})->whole_frames);
  EXPECT_FALSE(kernel_session(stage({"in", "out"}), std::vector{frame}));
  EXPECT_EQ(complaint(stateful(std::string("frames"), "rows")),
            "state needs bytes from 1 to 1 GiB that do not depend on `frames`");
  EXPECT_EQ(complaint(stateful(std::int64_t{0}, "rows")),
            "state needs bytes from 1 to 1 GiB that do not depend on `frames`");
  EXPECT_NE(complaint(stateful(std::int64_t{4}, "frames"), {variable}), "");
}

TEST(Kernel, GetsMembersOfTheSessionAndNullPointersWhereNoStructCanBePassed) {
  const parameters settings = with(stage({"in", "out", "session.frames", "session.pool", "session.stride", "null"}),
                                   "state", table({{"bytes", std::int64_t{4}}}));
  const std::vector<kernel_argument> made = parse_kernel(settings, std::vector{variable}).arguments;
  std::byte pool{};
  const session_arguments session{nullptr, &pool, 256};
  const auto member = [&](std::size_t index) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(&session) + made[index].offset, made[index].bytes);
    return value;
  };
  EXPECT_EQ(member(2), 0U);
  EXPECT_EQ(member(3), reinterpret_cast<std::uintptr_t>(&pool));
  EXPECT_EQ(member(4), 256U);
  EXPECT_EQ(made[5].from, source::null);
  EXPECT_EQ(made[5].bytes, sizeof(void*));
  EXPECT_EQ(complaint(stage({"session.pool", "out"})), "args has \"session.pool\", and the stage has no `state`");
}

/// The field and the message with which a launch is refused, on a device that allows blocks of 1024 threads and 48 KiB
/// of shared memory; "" if none is.
std::string launch_complaint(const parameters& settings, std::int64_t max_frames, const tensor_spec& input = frame) {
  try {
    check_launches(parse_kernel(settings, std::vector{input}), {.threads = 1024, .shared = 48 << 10}, max_frames);
  } catch (const parameter_error& error) {
    return error.field + " " + error.what();
  }
  return "";
}

TEST(KernelLaunch, FitsTheDeviceForEveryNumberOfFrames) {
  parameters settings = with(stage({"in", "out"}), "cluster", std::vector<double>{2});
  settings.set("grid", texts{"max(2, frames)"});
  EXPECT_EQ(launch_complaint(settings, 2), "");
  EXPECT_EQ(launch_complaint(settings, 4),
            "grid is 3 × 1 × 1 blocks in a batch of 3 frames, not a multiple of the cluster");
  settings.set("grid", texts{"2 * frames"});
  EXPECT_EQ(launch_complaint(settings, 1000), "");
  EXPECT_EQ(launch_complaint(with(stage({"in", "out"}), "shared", std::string("1024 * frames")), 64),
            "shared is 50176 bytes in a batch of 49 frames; this kernel can have 49152");
}

TEST(KernelLaunch, FitsTheDeviceForEveryLengthOfFrames) {
  EXPECT_EQ(
      launch_complaint(with(stage({"in", "out"}), "grid", texts{"(n0 - 7) * (n0 - 7)"}), 5, variable),
      "grid is 0 × 1 × 1 blocks in a batch of 1 frame with n0 = 7; allowed are 1 to 2147483647, and 1 to 65535 in "
      "the second and third place");
  EXPECT_EQ(launch_complaint(with(stage({"in", "out"}), "grid", texts{"n0"}), 5, variable), "");
}

TEST(KernelLaunch, IsCheckedAtBothEndsOfManyBatches) {
  const parameters settings = with(stage({"in", "out"}), "grid", texts{"frames - 1000000 + 1"});
  EXPECT_THAT(launch_complaint(settings, 1'000'000), HasSubstr("in a batch of 1 frame;"));
  EXPECT_THAT(launch_complaint(with(stage({"in", "out"}), "grid", texts{"1000000 - frames"}), 1'000'000),
              HasSubstr("in a batch of 1000000 frames;"));
}

TEST(KernelLaunch, BlamesTheBlockForItsThreads) {
  const auto refused = [](const parameters::value& block) {
    return launch_complaint(with(stage({"in", "out"}), "block", block), 1);
  };
  EXPECT_EQ(refused(std::vector<double>{-1, -1}),
            "block is -1 × -1 × 1 threads in a batch of 1 frame; this kernel can have 1024");
  EXPECT_THAT(refused(texts{"4294967296", "4294967296"}), HasSubstr("block is 4294967296 × 4294967296 × 1 threads"));
  EXPECT_THAT(refused(std::vector<double>{32, 64}), HasSubstr("block is 32 × 64 × 1 threads"));
  EXPECT_THAT(refused(std::vector<double>{1, 1, 65}), HasSubstr("block is 1 × 1 × 65 threads"));
  EXPECT_EQ(refused(std::vector<double>{1, 1, 64}), "");
}

TEST(KernelLaunch, GivesArgumentsThatTheirTypesHold) {
  const auto refused = [](const std::string& argument) { return launch_complaint(stage({"in", "out", argument}), 4); };
  EXPECT_EQ(
      refused("i32 frames * 1073741824"),
      "args has \"i32 frames * 1073741824\", which is 2147483648 in a batch of 2 frames; its type holds -2147483648 "
      "to 2147483647");
  EXPECT_EQ(refused("u32 frames * 1073741823"), "");
  EXPECT_THAT(refused("u32 frames * 1073741824"), HasSubstr("which is 4294967296 in a batch of 4 frames"));
  EXPECT_THAT(refused("u32 1 - frames"), HasSubstr("which is -1 in a batch of 2 frames"));
  EXPECT_THAT(refused("u64 -1"), HasSubstr("which is -1 in a batch of 1 frame"));
  EXPECT_THAT(refused("u8 n0 + 156"), HasSubstr("which is 256 in"));
  EXPECT_THAT(refused("i8 -129"), HasSubstr("its type holds -128 to 127"));
  EXPECT_THAT(refused("u16 65536"), HasSubstr("its type holds 0 to 65535"));
  EXPECT_THAT(refused("i16 32768"), HasSubstr("its type holds -32768 to 32767"));
  for (const char* const argument : {"frames", "-1", "i64 -1", "u8 255", "i8 -128", "u16 65535", "i16 -32768"}) {
    EXPECT_EQ(refused(argument), "") << argument;
  }
}

TEST(Kernel, RefusesClustersThatAreNone) {
  for (const std::vector<double>& sizes : std::vector<std::vector<double>>{
           {}, {2.5}, {0}, {-1, -1}, {9}, {4, 4}, {1, 1, 1, 1}, {1e30}, {std::numeric_limits<double>::quiet_NaN()}}) {
    EXPECT_THAT(complaint(with(stage({"in", "out"}), "cluster", sizes)), HasSubstr("cluster must be a list of"));
  }
  EXPECT_EQ(complaint(with(stage({"in", "out"}), "cluster", std::vector<double>{2, 4})), "");
}

/// A kernel of frames of f32[8] whose third argument is `argument`, with one entry of `values`.
kernel_settings parsed(const std::string& argument, parameters::value value) {
  auto values = std::make_shared<parameters>();
  values->set("x", std::move(value));
  parameters settings;
  settings.set("grid", std::vector<std::string>{"frames"});
  settings.set("block", std::vector<std::string>{"n0"});
  settings.set("args", std::vector<std::string>{"in", "out", argument});
  settings.set("values", std::shared_ptr<const parameters>(std::move(values)));
  const tensor_spec input{.type = element_type::f32, .shape = {8}};
  return parse_kernel(settings, std::span(&input, 1));
}

std::string refusal(const std::string& argument, parameters::value value) {
  try {
    static_cast<void>(parsed(argument, std::move(value)));
    return "taken";
  } catch (const parameter_error& error) {
    return error.field + " " + error.what();
  }
}

std::uint64_t bits_of(const std::byte* bytes, std::size_t count) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, count);
  return bits;
}

TEST(KernelValue, IsANumberOfEveryType) {
  for (const element_type type :
       {element_type::u8, element_type::u16, element_type::i8, element_type::i16, element_type::i32, element_type::i64,
        element_type::f16, element_type::bf16, element_type::f32, element_type::f64}) {
    const element_codec codec{type};
    for (const double number : {0.0, 1.0, 100.0, is_floating(type) ? -0.1 : 7.0}) {
      const kernel_argument made = parsed(std::string{name_of(type)} + " x", number).arguments[2];
      EXPECT_EQ(made.bytes, size_of(type)) << name_of(type);
      EXPECT_EQ(bits_of(made.number.data(), made.bytes), codec.encode(static_cast<long double>(number)))
          << number << " as " << name_of(type);
    }
    const kernel_argument array =
        parsed(std::string{name_of(type)} + "* x", std::vector<double>{1.0, 2.0, 3.0}).arguments[2];
    ASSERT_EQ(array.array.size(), 3 * size_of(type));
    EXPECT_EQ(bits_of(array.array.data() + 2 * size_of(type), size_of(type)), codec.encode(3.0L)) << name_of(type);
  }
}

TEST(KernelValue, IsABool) {
  EXPECT_EQ(bits_of(parsed("bool x", true).arguments[2].number.data(), 1), 1U);
  EXPECT_EQ(bits_of(parsed("bool x", std::int64_t{0}).arguments[2].number.data(), 1), 0U);
  EXPECT_EQ(parsed("bool* x", std::vector<double>{1.0, 0.0}).arguments[2].array,
            (std::vector<std::byte>{std::byte{1}, std::byte{0}}));
}

TEST(KernelValue, FitsItsType) {
  for (const auto& [type, number] : std::vector<std::pair<std::string, double>>{{"u8", 256.0},
                                                                                {"u8", -1.0},
                                                                                {"u8", 0.5},
                                                                                {"i8", 128.0},
                                                                                {"i8", -129.0},
                                                                                {"u16", 65536.0},
                                                                                {"i16", 32768.0},
                                                                                {"i32", 0x1p31},
                                                                                {"u32", 0x1p32},
                                                                                {"i64", 0x1p63},
                                                                                {"u64", -1.0},
                                                                                {"u64", 0x1p64},
                                                                                {"f16", 65520.0},
                                                                                {"f32", 1e39},
                                                                                {"bf16", 1e39},
                                                                                {"bool", 2.0}}) {
    EXPECT_THAT(refusal(type + " x", number), HasSubstr("which is no " + type)) << number;
    EXPECT_THAT(refusal(type + "* x", std::vector<double>{1.0, number}), HasSubstr("values 'x' is ")) << type;
  }
  for (const auto& [type, number] : std::vector<std::pair<std::string, double>>{
           {"u8", 255.0}, {"i8", -128.0}, {"u64", 0x1p63}, {"i64", -0x1p63}, {"f16", 65519.0}, {"bf16", 3e38}}) {
    EXPECT_EQ(refusal(type + " x", number), "taken") << type;
  }
}

TEST(KernelValue, OfAFloatingTypeIsNoExpression) {
  for (const char* const type : {"f16", "bf16", "f32", "f64", "bool"}) {
    EXPECT_THAT(refusal(std::string{type} + " n0 * 2", 1.0), HasSubstr("`values` has no 'n0 * 2'")) << type;
  }
  EXPECT_EQ(parsed("u16 n0 * 2", 1.0).arguments[2].bytes, 2U);
}

}  // namespace
}  // namespace penstock
