// A cuDNN that convolves in the memory of the host, by the definition: what cudnn_test opens in place of the real one.
// Its engines are told apart by what the backend API says of them; see `engines`.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int bad_parameter = 2000;
constexpr int not_finalized = 2004;
constexpr int not_supported = 3000;

struct descriptor {
  int kind = 0;
  bool finalized = false;
  std::map<int, std::vector<char>> attributes;
  std::size_t engine = 0;
  const descriptor* graph = nullptr;

  template <class Value>
  [[nodiscard]] std::vector<Value> all(int name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) {
      std::abort();
    }
    std::vector<Value> values(found->second.size() / sizeof(Value));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <class Value>
  [[nodiscard]] Value one(int name) const {
    return all<Value>(name).at(0);
  }
};

struct engine {
  std::vector<int> notes;
  std::int64_t workspace;
  bool plans;
  bool fuses;
};

// By what Penstock is to do with them.
const std::vector<engine> engines{
    {{0}, 0, true, true},                      // tensor cores: not in f32
    {{4}, 0, true, true},                      // other bits in each run: never
    {{}, std::int64_t{1} << 40U, true, true},  // too much workspace
    {{}, 0, false, true},                      // can't be planned
    {{}, 4096, true, true},                    // good
    {{}, 0, true, true},                       // better, but the heuristics do not name it
};
constexpr std::int64_t named_engines = 5;

std::size_t last_engine = 99;
int runs = 0;
int live = 0;
void* bound_stream = nullptr;

std::size_t bytes_of(int type) {
  constexpr int one_byte = 2;
  constexpr int eight_bytes[] = {0, 3, 5, 6, 15};
  if (type == one_byte) {
    return 1;
  }
  return std::find(std::begin(eight_bytes), std::end(eight_bytes), type) != std::end(eight_bytes) ? 8 : 4;
}

descriptor* of(void* handle) {
  return static_cast<descriptor*>(handle);
}

struct image {
  std::vector<std::int64_t> extents;
  float* data = nullptr;
};

class execution {
 public:
  execution(const descriptor& graph, const descriptor& pack)
      : ids_(pack.all<std::int64_t>(1000)), pointers_(pack.all<float*>(1001)), graph_(graph) {}

  void run() {
    for (void* const each : graph_.all<void*>(801)) {
      const descriptor& operation = *of(each);
      if (operation.kind == 10) {
        convolve(operation);
      } else {
        pointwise(operation);
      }
    }
  }

 private:
  image tensor(void* handle) {
    const descriptor& tensor = *of(handle);
    image made{tensor.all<std::int64_t>(902), nullptr};
    const auto id = tensor.one<std::int64_t>(906);
    if (tensor.one<char>(907) != 0) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : made.extents) {
        elements *= extent;
      }
      middle_[id].resize(static_cast<std::size_t>(elements));
      made.data = middle_[id].data();
    } else {
      made.data = pointers_.at(static_cast<std::size_t>(std::find(ids_.begin(), ids_.end(), id) - ids_.begin()));
    }
    return made;
  }

  void convolve(const descriptor& operation) {
    const descriptor& details = *of(operation.one<void*>(702));
    const image x = tensor(operation.one<void*>(704));
    const image w = tensor(operation.one<void*>(703));
    const image y = tensor(operation.one<void*>(705));
    const auto dilation = details.all<std::int64_t>(102);
    const auto stride = details.all<std::int64_t>(103);
    const auto before = details.all<std::int64_t>(105);
    const std::int64_t groups = x.extents[1] / w.extents[1];
    float* out = y.data;
    for (std::int64_t n = 0; n < y.extents[0]; ++n) {
      for (std::int64_t k = 0; k < y.extents[1]; ++k) {
        for (std::int64_t p = 0; p < y.extents[2]; ++p) {
          for (std::int64_t q = 0; q < y.extents[3]; ++q) {
            double sum = 0.0;
            for (std::int64_t c = 0; c < w.extents[1]; ++c) {
              const std::int64_t channel = k / (y.extents[1] / groups) * w.extents[1] + c;
              for (std::int64_t r = 0; r < w.extents[2]; ++r) {
                for (std::int64_t s = 0; s < w.extents[3]; ++s) {
                  const std::int64_t row = p * stride[0] - before[0] + r * dilation[0];
                  const std::int64_t column = q * stride[1] - before[1] + s * dilation[1];
                  if (row >= 0 && row < x.extents[2] && column >= 0 && column < x.extents[3]) {
                    const std::int64_t at = ((n * x.extents[1] + channel) * x.extents[2] + row) * x.extents[3] + column;
                    const std::int64_t tap = ((k * w.extents[1] + c) * w.extents[2] + r) * w.extents[3] + s;
                    sum += static_cast<double>(x.data[at]) * static_cast<double>(w.data[tap]);
                  }
                }
              }
            }
            *out++ = static_cast<float>(sum);
          }
        }
      }
    }
  }

  void pointwise(const descriptor& operation) {
    const int mode = of(operation.one<void*>(750))->one<int>(0);
    const image x = tensor(operation.one<void*>(751));
    const image y = tensor(operation.one<void*>(753));
    const float* const bias = mode == 0 ? tensor(operation.one<void*>(752)).data : nullptr;
    const std::int64_t pixels = y.extents[2] * y.extents[3];
    for (std::int64_t at = 0; at < y.extents[0] * y.extents[1] * pixels; ++at) {
      y.data[at] = bias != nullptr ? x.data[at] + bias[at / pixels % y.extents[1]] : std::max(x.data[at], 0.0F);
    }
  }

  std::vector<std::int64_t> ids_;
  std::vector<float*> pointers_;
  const descriptor& graph_;
  std::map<std::int64_t, std::vector<float>> middle_;
};

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return 92801;
}
const char* cudnnGetErrorString(int status) {
  return status == not_supported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, std::size_t bytes) {
  std::strncpy(message, "as the fake says", bytes);
}
int cudnnCreate(void** handle) {
  *handle = &live;
  return 0;
}
int cudnnDestroy(void* /*handle*/) {
  return 0;
}
int cudnnSetStream(void* /*handle*/, void* stream) {
  bound_stream = stream;
  return 0;
}
int cudnnBackendCreateDescriptor(int kind, void** made) {
  auto* const descriptor_made = new descriptor;
  descriptor_made->kind = kind;
  *made = descriptor_made;
  ++live;
  return 0;
}
int cudnnBackendDestroyDescriptor(void* which) {
  delete of(which);
  --live;
  return 0;
}
int cudnnBackendSetAttribute(void* to, int name, int type, std::int64_t count, const void* elements) {
  const auto* const first = static_cast<const char*>(elements);
  if (of(to)->finalized || count < 1) {
    return bad_parameter;
  }
  of(to)->attributes[name] = {first, first + static_cast<std::size_t>(count) * bytes_of(type)};
  if (type == 15) {
    for (void* const each : of(to)->all<void*>(name)) {
      if (!of(each)->finalized) {
        return not_finalized;
      }
    }
  }
  return 0;
}
int cudnnBackendFinalize(void* which) {
  descriptor& made = *of(which);
  if (made.kind == 2) {
    made.engine = static_cast<std::size_t>(made.one<std::int64_t>(1301));
    made.graph = of(made.one<void*>(1300));
  }
  if (made.kind == 3) {
    const descriptor& chosen = *of(made.one<void*>(300));
    made.engine = chosen.engine;
    made.graph = chosen.graph;
  }
  if (made.kind == 5) {
    const descriptor& configuration = *of(made.one<void*>(401));
    if (!engines[configuration.engine].plans) {
      return not_supported;
    }
    made.engine = configuration.engine;
    made.graph = configuration.graph;
  }
  if (made.kind == 15 && made.all<void*>(801).size() > 1) {
    // It knows no function but the sum and max(x, 0).
    for (void* const each : made.all<void*>(801)) {
      if (of(each)->kind == 13 && of(of(each)->one<void*>(750))->one<int>(0) > 100) {
        return not_supported;
      }
    }
  }
  made.finalized = true;
  return 0;
}
int cudnnBackendGetAttribute(void* from, int name, int /*type*/, std::int64_t most, std::int64_t* count,
                             void* elements) {
  const descriptor& given = *of(from);
  if (name == 202) {
    auto** const into = static_cast<void**>(elements);
    const bool fallback = given.one<int>(200) == 2;
    *count = fallback ? 0 : named_engines;
    for (std::int64_t at = 0; at < std::min(*count, most); ++at) {
      descriptor& configuration = *of(into[at]);
      configuration.engine = static_cast<std::size_t>(at);
      configuration.graph = of(given.one<void*>(201));
      configuration.finalized = true;
    }
    return 0;
  }
  if (name == 300) {
    descriptor& made = *of(*static_cast<void**>(elements));
    made.engine = given.engine;
    made.finalized = true;
    *count = 1;
    return 0;
  }
  if (name == 1303) {
    const std::vector<int>& notes = engines[given.engine].notes;
    *count = static_cast<std::int64_t>(notes.size());
    std::copy(notes.begin(), notes.end(), static_cast<int*>(elements));
    return 0;
  }
  if (name == 802 || name == 1301) {
    *static_cast<std::int64_t*>(elements) =
        name == 802 ? static_cast<std::int64_t>(engines.size()) : static_cast<std::int64_t>(given.engine);
    *count = 1;
    return 0;
  }
  if (name == 402) {
    *static_cast<std::int64_t*>(elements) = engines[given.engine].workspace;
    *count = 1;
    return 0;
  }
  return bad_parameter;
}
int cudnnBackendExecute(void* /*handle*/, void* plan, void* pack) {
  if (!of(plan)->finalized || !of(pack)->finalized || bound_stream == nullptr) {
    return not_finalized;
  }
  if (engines[of(plan)->engine].workspace > 0 && of(pack)->one<void*>(1003) == nullptr) {
    return bad_parameter;
  }
  last_engine = of(plan)->engine;
  ++runs;
  execution(*of(plan)->graph, *of(pack)).run();
  return 0;
}

// What cudnn_test asks.
std::size_t fake_cudnn_last_engine() {
  return last_engine;
}
int fake_cudnn_runs() {
  return runs;
}
int fake_cudnn_descriptors() {
  return live;
}
}
