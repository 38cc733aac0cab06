#include <chrono>
#include <stdexcept>
#include <string>

#include "tests/bench/overlap/overlap_ways.hpp"

namespace penstock::bench {
namespace {

using clock = std::chrono::steady_clock;

void require(fault failed) {
  if (failed) {
    throw std::runtime_error("the device failed: " + std::string(failed.name));
  }
}

class seam_way final : public overlap_way {
 public:
  seam_way(device& on, const overlap_buffers& with, operation& kernel, std::size_t chunks)
      : with_(with), kernel_(kernel), chunks_(chunks_of(with, chunks)) {
    for (std::size_t each = 0; each < overlap_streams; ++each) {
      streams_.push_back(on.open_stream(stream_priority::normal));
    }
  }

  double run() override {
    const clock::time_point begin = clock::now();
    for (std::size_t at = 0; at < chunks_.size(); ++at) {
      const chunk& each = chunks_[at];
      stream& on = *streams_[at % streams_.size()];
      require(on.copy_in(with_.input.get() + each.offset, with_.pinned_input.get() + each.offset, each.bytes));
      require(on.launch(kernel_, each.launch));
      require(on.copy_out(with_.pinned_output.get() + each.offset, with_.output.get() + each.offset, each.bytes));
    }
    for (const std::unique_ptr<stream>& each : streams_) {
      require(each->synchronize());
    }
    return std::chrono::duration<double>(clock::now() - begin).count();
  }

 private:
  const overlap_buffers& with_;
  operation& kernel_;
  std::vector<chunk> chunks_;
  std::vector<std::unique_ptr<stream>> streams_;
};

}  // namespace

std::vector<chunk> chunks_of(const overlap_buffers& with, std::size_t count) {
  const std::size_t rows = with.rows / count;
  std::vector<chunk> made(count);
  for (std::size_t at = 0; at < count; ++at) {
    chunk& each = made[at];
    each.bytes = rows * overlap_work::row * sizeof(float);
    each.offset = at * each.bytes;
    each.input = with.input.get() + each.offset;
    each.launch = {.inputs = {&each.input, 1},
                   .output = with.output.get() + each.offset,
                   .scratch = with.scratch.get() + at * with.scratch_stride,
                   .extent = {static_cast<std::int64_t>(rows), overlap_work::row},
                   .session = {}};
  }
  return made;
}

std::unique_ptr<overlap_way> make_seam_way(device& on, const overlap_buffers& with, operation& kernel,
                                           std::size_t chunks) {
  return std::make_unique<seam_way>(on, with, kernel, chunks);
}

}  // namespace penstock::bench
