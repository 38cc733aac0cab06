#include "base/configuration_error.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

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
  append("source", source);
  append("sink", sink);
  append("field", field);
  return out;
}

void refuse(const configuration_place& place, const std::string& message) {
  const std::string where = place.text();
  throw configuration_error(where.empty() ? message : where + ": " + message);
}

namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// Optimal string alignment distance; three rows are all that it looks back on.
std::size_t edits(std::string_view from, std::string_view to) {
  const std::size_t width = to.size() + 1;
  std::array<std::vector<std::size_t>, 3> rows;
  rows.fill(std::vector<std::size_t>(width));
  for (std::size_t column = 0; column < width; ++column) {
    rows[0][column] = column;
  }
  for (std::size_t row = 1; row <= from.size(); ++row) {
    auto& now = rows[row % 3];
    const auto& above = rows[(row - 1) % 3];
    now[0] = row;
    for (std::size_t column = 1; column < width; ++column) {
      const bool same = lower(from[row - 1]) == lower(to[column - 1]);
      now[column] = std::min({above[column] + 1, now[column - 1] + 1, above[column - 1] + (same ? 0U : 1U)});
      const bool swapped = row > 1 && column > 1 && lower(from[row - 1]) == lower(to[column - 2]) &&
                           lower(from[row - 2]) == lower(to[column - 1]);
      if (swapped) {
        now[column] = std::min(now[column], rows[(row - 2) % 3][column - 2] + 1);
      }
    }
  }
  return rows[from.size() % 3][to.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view given, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest = 64;
  if (given.size() > longest) {
    return {};
  }
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(1, given.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edits(given, candidate);
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view given, std::span<const std::string_view> candidates) {
  if (const std::string_view best = nearest_name(given, candidates); !best.empty()) {
    return "; did you mean '" + std::string(best) + "'?";
  }
  std::string out;
  for (const std::string_view candidate : candidates) {
    out += (out.empty() ? "; known: " : ", ") + std::string(candidate);
  }
  return out;
}

}  // namespace penstock
