#pragma once

#include <cstdint>
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
