#include <algorithm>
#include <string>

#include <penstock/result.hpp>

namespace penstock {

const tensor_view& result::output(std::string_view name) const {
  const auto found =
      std::find_if(outputs_.begin(), outputs_.end(), [name](const tensor_view& each) { return each.name == name; });
  if (found == outputs_.end()) {
    std::string known;
    for (const tensor_view& each : outputs_) {
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    }
    throw std::out_of_range("the result has no output \"" + std::string(name) + "\"; it has " + known);
  }
  return *found;
}

}  // namespace penstock
