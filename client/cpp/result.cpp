#include <algorithm>
#include <string>

#include <penstock/result.hpp>

namespace penstock {

const tensor_view& result::output(std::string_view name) const {
  const auto found =
      std::find_if(outputs_.begin(), outputs_.end(), [name](const tensor_view& each) { return each.name == name; });
  if (found == outputs_.end()) {
    throw std::out_of_range("the result has no output \"" + std::string(name) + "\"");
  }
  return *found;
}

}  // namespace penstock
