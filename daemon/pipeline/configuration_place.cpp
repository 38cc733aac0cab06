#include "daemon/pipeline/configuration_place.hpp"

namespace penstock {

std::string configuration_place::text() const {
  std::string out = position.file;
  if (position.line != 0) {
    out.append(":").append(std::to_string(position.line));
  }
  const char* separator = out.empty() ? "" : ": ";
  const auto append = [&](const char* what, const std::string& name) {
    if (!name.empty()) {
      out.append(separator).append(what).append(" '").append(name).append("'");
      separator = ", ";
    }
  };
  append("pipeline", pipeline);
  append("stage", stage);
  append("field", field);
  return out;
}

void refuse(const configuration_place& place, const std::string& message) {
  const std::string where = place.text();
  throw configuration_error(where.empty() ? message : where + ": " + message);
}

}  // namespace penstock
