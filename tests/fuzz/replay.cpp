// Runs the fuzz target without libFuzzer: the seeds of a folder as they are, then changed at random, as many as
// PENSTOCK_FUZZ_MESSAGES says. PENSTOCK_SEED repeats a run.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using bytes = std::vector<std::uint8_t>;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

std::vector<bytes> read_all(const char* folder) {
  std::vector<bytes> all;
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(each.path(), std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return all;
}

/// A byte, a bit, an integer at a limit, a piece of another seed, or a cut.
void change(bytes& message, const std::vector<bytes>& seeds, std::mt19937_64& random) {
  constexpr std::uint64_t limits[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, UINT64_MAX};
  const auto below = [&](std::size_t limit) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(limit, 1));
  };
  const std::size_t at = below(message.size());
  if (message.empty()) {
    return;
  }
  switch (below(5)) {
    case 0:
      message[at] = static_cast<std::uint8_t>(random());
      break;
    case 1:
      message[at] = static_cast<std::uint8_t>(message[at] ^ (1U << below(8)));
      break;
    case 2: {
      std::uint64_t value = limits[below(std::size(limits))];
      const std::size_t end = std::min(message.size(), at + (std::size_t{1} << below(4)));
      for (std::size_t byte = at; byte < end; ++byte, value >>= 8U) {
        message[byte] = static_cast<std::uint8_t>(value);
      }
      break;
    }
    case 3: {
      const bytes& other = seeds[below(seeds.size())];
      const std::size_t start = below(other.size());
      const std::size_t count = std::min({below(64), other.size() - start, message.size() - at});
      std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(start), count,
                  message.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    }
    default:
      message.resize(at);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "needs the folder of the seeds\n";
    return EXIT_FAILURE;
  }
  const std::vector<bytes> seeds = read_all(arguments[1]);
  if (seeds.empty()) {
    std::cerr << "no seeds in " << arguments[1] << "\n";
    return EXIT_FAILURE;
  }
  const std::uint64_t seed = from_environment("PENSTOCK_SEED", std::random_device{}());
  std::cout << seeds.size() << " seeds; seed " << seed << " (PENSTOCK_SEED repeats it)" << std::endl;
  for (const bytes& each : seeds) {
    LLVMFuzzerTestOneInput(each.data(), each.size());
  }
  std::mt19937_64 random(seed);
  for (std::uint64_t left = from_environment("PENSTOCK_FUZZ_MESSAGES", 20'000); left > 0; --left) {
    bytes input = seeds[random() % seeds.size()];
    for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) {
      change(input, seeds, random);
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return EXIT_SUCCESS;
}
