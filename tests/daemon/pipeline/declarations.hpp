#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// A stage that stands on a line of its own of "test.toml".
inline stage_declaration stage(std::string name, std::string op, std::vector<std::string> from,
                               const std::vector<std::pair<std::string, parameters::value>>& settings = {}) {
  stage_declaration made;
  made.name = std::move(name);
  made.op = std::move(op);
  made.from = std::move(from);
  made.position = {"test.toml", 7};
  for (const auto& [key, value] : settings) {
    made.settings.set(key, value);
  }
  return made;
}

inline stage_declaration convert(std::string name, std::vector<std::string> from) {
  return stage(std::move(name), "convert", std::move(from), {{"to", std::string("f32")}});
}

inline stage_declaration fir(std::string name, std::vector<std::string> from, std::int64_t decimation) {
  return stage(std::move(name), "fir", std::move(from),
               {{"taps", std::vector<double>{0.5, 0.5}}, {"decimation", decimation}});
}

inline stage_declaration reframe(std::string name, std::vector<std::string> from, std::int64_t length) {
  return stage(std::move(name), "reframe", std::move(from), {{"length", length}});
}

/// A kernel that writes `loud`, 1024 f32, and `level`, 4 f32.
inline stage_declaration two_outputs(std::string name, std::vector<std::string> from) {
  const auto spec = [](const char* extent) {
    auto table = std::make_shared<parameters>();
    table->set("dtype", std::string("f32"));
    table->set("shape", std::vector<std::string>{extent});
    return std::shared_ptr<const parameters>(std::move(table));
  };
  auto outputs = std::make_shared<parameters>();
  outputs->set("loud", spec("n0"));
  outputs->set("level", spec("4"));
  return stage(std::move(name), "kernel", std::move(from),
               {{"file", std::make_shared<const code_file>(code_file{"k.cu", "k.cu", ""})},
                {"outputs", std::shared_ptr<const parameters>(std::move(outputs))},
                {"grid", std::vector<std::string>{"frames"}},
                {"block", std::vector<std::string>{"128"}},
                {"args", std::vector<std::string>{"in", "out.loud", "out.level"}}});
}

/// A pipeline of 1024 i16 samples a frame.
inline pipeline_declaration pipeline(std::vector<stage_declaration> stages, std::vector<std::string> outputs = {}) {
  pipeline_declaration made;
  made.name = "test";
  made.input = {element_type::i16, {1024}, false};
  made.stages = std::move(stages);
  made.outputs = std::move(outputs);
  made.position = {"test.toml", 2};
  return made;
}

}  // namespace penstock
