#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/device/completion_log.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

using stream_contract = device_contract;

TEST_P(stream_contract, RunsItsWorkInTheOrderOfTheCalls) {
  constexpr std::uint32_t rounds = 64;
  const device_memory pinned = target().allocate_pinned(std::size_t{2} * rounds * sizeof(std::uint32_t));
  const device_memory cell = target().allocate(sizeof(std::uint32_t));
  const auto queue = open_stream();
  const auto held = shut(*queue);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    words(pinned)[round] = round + 7;
    EXPECT_ENQUEUED(queue->copy_in(cell.get(), words(pinned) + round, sizeof(std::uint32_t)));
    EXPECT_ENQUEUED(queue->copy_out(words(pinned) + rounds + round, cell.get(), sizeof(std::uint32_t)));
  }
  held->open();
  EXPECT_ENQUEUED(queue->synchronize());
  for (std::uint32_t round = 0; round < rounds; ++round) {
    EXPECT_EQ(words(pinned)[rounds + round], round + 7);
  }
}

TEST_P(stream_contract, GoesOnWhileAnotherIsHeld) {
  const auto busy = open_stream();
  const auto free = open_stream();
  const auto done = open_event();
  const auto held = shut(*busy);
  EXPECT_ENQUEUED(busy->record(*done));
  for (int round = 0; round < 10; ++round) {
    make_a_round_trip(*free);
  }
  EXPECT_EQ(state_of(*done), event::state::pending);
  held->open();
  EXPECT_ENQUEUED(busy->synchronize());
  EXPECT_EQ(state_of(*done), event::state::reached);
}

TEST_P(stream_contract, OnlyEnqueues) {
  const device_memory pinned = target().allocate_pinned(sizeof(std::uint32_t));
  const device_memory cell = target().allocate(sizeof(std::uint32_t));
  completion_log log(1);
  const auto queue = open_stream();
  const auto done = open_event();
  const auto held = shut(*queue);
  words(pinned)[0] = 1;
  EXPECT_ENQUEUED(queue->copy_in(cell.get(), pinned.get(), sizeof(std::uint32_t)));
  EXPECT_ENQUEUED(queue->copy_out(pinned.get(), cell.get(), sizeof(std::uint32_t)));
  EXPECT_ENQUEUED(queue->record(*done));
  EXPECT_ENQUEUED(queue->wait(*done));
  EXPECT_ENQUEUED(log.ask(*queue));
  EXPECT_TRUE(held->await_entered());
  EXPECT_EQ(log.count(), 0U);  // all calls came back, and none of their work is done
  EXPECT_EQ(state_of(*done), event::state::pending);
  held->open();
  EXPECT_TRUE(log.await(1));
}

// Pieces of odd sizes that lie apart on the host, in another order than on the device, where they lie side by side.
TEST_P(stream_contract, CopiesPiecesEachToItsPlace) {
  const std::vector<std::size_t> sizes{1, 4096, 3, 65536, 257, 16, 1U << 20U, 5};
  constexpr std::size_t room = (std::size_t{1} << 20U) + 4096;
  constexpr std::byte untouched{0xA5};
  const device_memory sent = target().allocate_pinned(sizes.size() * room);
  const device_memory received = target().allocate_pinned(sizes.size() * room);
  const device_memory memory = target().allocate(sizes.size() * room);
  const auto queue = open_stream();
  int round = 0;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, sizes.size()}) {
    // Other values than the last time, which still lie on the device.
    const auto value_of = [round](std::size_t piece) { return 16 * round + static_cast<int>(piece) + 1; };
    ++round;
    std::memset(received.get(), static_cast<int>(untouched), sizes.size() * room);
    copy_list in;
    copy_list out;
    std::size_t side_by_side = 0;
    for (std::size_t piece = 0; piece < count; ++piece) {
      const std::size_t apart = piece * 5 % sizes.size() * room;
      std::memset(sent.get() + apart, value_of(piece), sizes[piece]);
      in.add(memory.get() + side_by_side, sent.get() + apart, sizes[piece]);
      out.add(received.get() + apart, memory.get() + side_by_side, sizes[piece]);
      side_by_side += sizes[piece];
    }
    in.add(memory.get(), sent.get(), 0);
    EXPECT_EQ(in.size(), count);
    EXPECT_ENQUEUED(queue->copy_pieces_in(in));
    EXPECT_ENQUEUED(queue->copy_pieces_out(out));
    EXPECT_ENQUEUED(queue->synchronize());
    for (std::size_t piece = 0; piece < count; ++piece) {
      const std::byte* const first = received.get() + piece * 5 % sizes.size() * room;
      EXPECT_EQ(std::count(first, first + room, std::byte(value_of(piece))), static_cast<std::ptrdiff_t>(sizes[piece]));
      EXPECT_EQ(std::count(first, first + sizes[piece], std::byte(value_of(piece))),
                static_cast<std::ptrdiff_t>(sizes[piece]));
      EXPECT_EQ(std::count(first + sizes[piece], first + room, untouched),
                static_cast<std::ptrdiff_t>(room - sizes[piece]));
    }
  }
}

TEST_P(stream_contract, CopiesEveryByteAndNoOther) {
  constexpr std::size_t largest = (std::size_t{16} << 20U) + 3;
  constexpr std::byte untouched{0xA5};
  const device_memory sent = target().allocate_pinned(largest + 16);
  const device_memory received = target().allocate_pinned(largest + 16);
  const device_memory memory = target().allocate(largest + 16);
  std::mt19937_64 random(2024);
  for (std::size_t at = 0; at + 8 <= largest + 16; at += 8) {
    const std::uint64_t value = random();
    std::memcpy(sent.get() + at, &value, sizeof value);
  }
  const auto queue = open_stream();
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{255}, std::size_t{256}, std::size_t{257},
        std::size_t{4096}, std::size_t{65537}, std::size_t{1} << 20U, (std::size_t{3} << 20U) + 5, largest}) {
    for (const std::size_t offset : {std::size_t{0}, std::size_t{5}}) {
      std::memset(received.get(), static_cast<int>(untouched), largest + 16);
      EXPECT_ENQUEUED(queue->copy_in(memory.get() + offset, sent.get() + offset, bytes));
      EXPECT_ENQUEUED(queue->copy_out(received.get() + offset, memory.get() + offset, bytes));
      EXPECT_ENQUEUED(queue->synchronize());
      EXPECT_EQ(std::memcmp(received.get() + offset, sent.get() + offset, bytes), 0) << bytes << " at " << offset;
      EXPECT_EQ(received.get()[offset + bytes], untouched) << bytes << " at " << offset;
      EXPECT_TRUE(offset == 0 || received.get()[offset - 1] == untouched) << bytes << " at " << offset;
    }
  }
}

TEST_P(stream_contract, LaunchesACompiledOperation) {
  constexpr std::size_t frames = 5;
  constexpr std::size_t width = 300;
  parameters settings;
  settings.set("a", 3.0);
  settings.set("b", -2.0);
  const std::vector<tensor_spec> inputs{{.type = element_type::f32, .shape = {width}}};
  const auto triple = target().compile("affine", {settings, inputs, frames});
  const std::size_t bytes = frames * width * sizeof(float);
  const device_memory pinned = target().allocate_pinned(bytes);
  const device_memory from = target().allocate(bytes);
  const device_memory to = target().allocate(bytes);
  const device_memory scratch = target().allocate(triple->scratch_bytes());
  auto* const values = reinterpret_cast<float*>(pinned.get());
  for (std::size_t at = 0; at < frames * width; ++at) {
    values[at] = static_cast<float>(at);
  }
  const void* const input = from.get();
  const auto queue = open_stream();
  EXPECT_ENQUEUED(queue->copy_in(from.get(), pinned.get(), bytes));
  EXPECT_ENQUEUED(queue->launch(*triple, {{&input, 1}, to.get(), scratch.get(), {frames, width}, {}}));
  EXPECT_ENQUEUED(queue->copy_out(pinned.get(), to.get(), bytes));
  EXPECT_ENQUEUED(queue->synchronize());
  for (std::size_t at = 0; at < frames * width; ++at) {
    ASSERT_EQ(values[at], 3.0F * static_cast<float>(at) - 2.0F) << at;
  }
}

TEST_P(stream_contract, RefusesToCompileAnUnknownOperator) {
  const parameters settings;
  const std::vector<tensor_spec> inputs{{.type = element_type::f32, .shape = {4}}};
  EXPECT_THROW((void)target().compile("no such operator", {settings, inputs, 1}), device_error);
}

TEST_P(stream_contract, WorksAtEveryPriority) {
  for (const stream_priority priority : {stream_priority::low, stream_priority::normal, stream_priority::high}) {
    const auto queue = target().open_stream(priority);
    make_a_round_trip(*queue);
  }
}

TEST_P(stream_contract, IsGivenOutAgainWithoutTraces) {
  const auto event = open_event();
  for (int round = 0; round < 50; ++round) {
    const auto queue = open_stream();
    make_a_round_trip(*queue);
    EXPECT_ENQUEUED(queue->record(*event));
  }
  EXPECT_EQ(state_of(*event), event::state::reached);
}

INSTANTIATE_TEST_SUITE_P(backend, stream_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing
