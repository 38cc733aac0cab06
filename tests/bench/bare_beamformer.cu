// Launches the kernel of deploy/examples/plugin-cutlass in a loop, without Penstock: what the plug-in is measured by.
//
// Usage: bare_beamformer BEAMS ANTENNAS SAMPLES WINDOW FRAMES SECONDS [copies | events]
//
// Batches of FRAMES frames, back to back on one stream, all over the same batch in the device's memory. With "copies"
// each batch comes from pinned memory and its sums go back there, on four streams in turn: a whole server but for its
// requests. With "events" each launch is between two events, whose times are added up, as the daemon times its stages.
// Prints a line of JSON: batches_per_s, and tflops of the complex product.
//
//   nvcc -std=c++17 -O3 -arch=sm_90 -I CUTLASS_INCLUDE bare_beamformer.cu -o bare_beamformer
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../deploy/examples/plugin-cutlass/beamformer.cuh"

namespace {

using clock_type = std::chrono::steady_clock;

void require(cudaError_t failed) {
  if (failed != cudaSuccess) {
    std::fprintf(stderr, "bare_beamformer: %s\n", cudaGetErrorString(failed));
    std::exit(1);
  }
}

// A stream with the memory of a batch.
struct lane {
  cudaStream_t stream;
  float* pinned_samples;
  float* pinned_power;
  float* samples;
  float* power;
};

std::vector<float> noise(std::size_t count) {
  std::mt19937 random(29);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (std::size_t at = 0; at < count; ++at) {
    numbers[at] = at < (1U << 20U) ? normal(random) : numbers[at - (1U << 20U)];
  }
  return numbers;
}

enum class mode { kernels, copies, events };

class launcher {
 public:
  launcher(const beamformer::problem& problem, std::int64_t frames, mode chosen)
      : problem_(problem),
        frames_(frames),
        copies_(chosen == mode::copies),
        events_(chosen == mode::events),
        samples_bytes_(sizeof(float) * 2 * frames * problem.antennas * problem.samples),
        power_bytes_(sizeof(float) * frames * problem.beams * problem.windows()) {
    std::vector<float> arranged(static_cast<std::size_t>(problem.weights()));
    beamformer::arrange(problem, noise(2 * static_cast<std::size_t>(problem.beams) * problem.antennas).data(),
                        arranged.data());
    float* weights = nullptr;
    require(cudaMalloc(&weights, arranged.size() * sizeof(float)));
    require(cudaMemcpy(weights, arranged.data(), arranged.size() * sizeof(float), cudaMemcpyHostToDevice));
    require(beamformer::allow_shared_bytes());
    arguments_ = beamformer::arguments_of(problem, weights);
    const std::vector<float> batch = noise(samples_bytes_ / sizeof(float));
    for (int each = 0; each < (copies_ ? 4 : 1); ++each) {
      lane made{};
      require(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking));
      require(cudaMallocHost(&made.pinned_samples, samples_bytes_));
      require(cudaMallocHost(&made.pinned_power, power_bytes_));
      require(cudaMalloc(&made.samples, samples_bytes_));
      require(cudaMalloc(&made.power, power_bytes_));
      std::memcpy(made.pinned_samples, batch.data(), samples_bytes_);
      require(cudaMemcpy(made.samples, batch.data(), samples_bytes_, cudaMemcpyHostToDevice));
      lanes_.push_back(made);
    }
    require(cudaStreamSynchronize(nullptr));  // the lanes' streams do not wait for the copies
  }

  // Batches a second over about so many seconds.
  double run(double seconds) {
    for (int warm = 0; warm < 3; ++warm) {
      launch_all(1);
    }
    const double one = std::max(launch_all(4) / 4, 1e-7);
    const int count = std::max(1, static_cast<int>(seconds / one));
    return count / launch_all(count);
  }

 private:
  // Seconds of so many batches, on the lanes in turn.
  double launch_all(int batches) {
    if (events_) {
      return launch_between_events(batches);
    }
    const auto begin = clock_type::now();
    for (int each = 0; each < batches; ++each) {
      launch(lanes_[static_cast<std::size_t>(each) % lanes_.size()]);
    }
    for (const lane& each : lanes_) {
      require(cudaStreamSynchronize(each.stream));
    }
    return std::chrono::duration<double>(clock_type::now() - begin).count();
  }

  // The same, of each between two events.
  double launch_between_events(int batches) {
    constexpr std::size_t at_once = 64;
    static std::vector<cudaEvent_t> events;
    while (events.size() < 2 * at_once) {
      require(cudaEventCreate(&events.emplace_back()));
    }
    double milliseconds = 0;
    for (int left = batches; left > 0;) {
      const std::size_t count = std::min<std::size_t>(static_cast<std::size_t>(left), at_once);
      for (std::size_t each = 0; each < count; ++each) {
        require(cudaEventRecord(events[2 * each], lanes_.front().stream));
        launch(lanes_.front());
        require(cudaEventRecord(events[2 * each + 1], lanes_.front().stream));
      }
      require(cudaStreamSynchronize(lanes_.front().stream));
      for (std::size_t each = 0; each < count; ++each) {
        float taken = 0;
        require(cudaEventElapsedTime(&taken, events[2 * each], events[2 * each + 1]));
        milliseconds += taken;
      }
      left -= static_cast<int>(count);
    }
    return milliseconds / 1000;
  }

  void launch(const lane& on) {
    if (copies_) {
      require(cudaStreamSynchronize(on.stream));  // as a server does before it fills the memory again
      require(cudaMemcpyAsync(on.samples, on.pinned_samples, samples_bytes_, cudaMemcpyHostToDevice, on.stream));
    }
    beamformer::arguments arguments = arguments_;
    arguments.samples = on.samples;
    arguments.power = on.power;
    beamformer::sum_powers<<<static_cast<unsigned>(problem_.blocks(frames_)), beamformer::threads,
                             beamformer::shared_bytes, on.stream>>>(arguments);
    require(cudaGetLastError());
    if (copies_) {
      require(cudaMemcpyAsync(on.pinned_power, on.power, power_bytes_, cudaMemcpyDeviceToHost, on.stream));
    }
  }

  beamformer::problem problem_;
  std::int64_t frames_;
  bool copies_;
  bool events_;
  std::size_t samples_bytes_;
  std::size_t power_bytes_;
  beamformer::arguments arguments_{};
  std::vector<lane> lanes_;
};

}  // namespace

int main(int count, char** words) {
  if (count < 7) {
    std::fprintf(stderr, "bare_beamformer: BEAMS ANTENNAS SAMPLES WINDOW FRAMES SECONDS [copies | events]\n");
    return 2;
  }
  const beamformer::problem problem{std::atoi(words[1]), std::atoi(words[2]), std::atoi(words[3]), std::atoi(words[4])};
  const std::int64_t frames = std::atoll(words[5]);
  const char* const word = count > 7 ? words[7] : "";
  const mode chosen = std::strcmp(word, "copies") == 0   ? mode::copies
                      : std::strcmp(word, "events") == 0 ? mode::events
                                                         : mode::kernels;
  const double rate = launcher(problem, frames, chosen).run(std::atof(words[6]));
  const double operations = 8.0 * problem.beams * problem.antennas * problem.samples * static_cast<double>(frames);
  std::printf("{\"batches_per_s\": %.3f, \"tflops\": %.2f}\n", rate, 1e-12 * operations * rate);
  return 0;
}
