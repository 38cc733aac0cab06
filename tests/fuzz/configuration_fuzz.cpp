// What the daemon makes of its configuration: one input is the text of penstock.toml, in which bytes that are no ASCII
// stand for digits, so that more of the changes leave a text that can be read. What is taken can be printed, and is
// read as the same again; what is refused is refused as configuration_error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/config/settings.hpp"
#include "daemon/pipeline/check.hpp"

namespace {

using namespace penstock;

void require(bool holds, const std::string& why) {
  if (!holds) {
    std::cerr << why << "\n";
    std::abort();
  }
}

std::optional<settings> read(std::string_view text, std::string* refusal = nullptr) {
  try {
    return parse_settings(text, "penstock.toml");
  } catch (const configuration_error& error) {
    if (refusal != nullptr) {
      *refusal = error.what();
    }
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  for (char& each : text) {
    const auto byte = static_cast<unsigned char>(each);
    each = (byte < ' ' && byte != '\n') || byte > '~' ? static_cast<char>('0' + byte % 10) : each;
  }
  const std::optional<settings> made = read(text);
  if (!made) {
    return 0;
  }
  std::string refusal;
  const std::string printed = print_settings(*made);
  const std::optional<settings> again = read(printed, &refusal);
  require(again.has_value(), printed + "is refused: " + refusal);
  require(print_settings(*again) == printed, printed + "is not read as it is printed:\n" + print_settings(*again));
  for (const pipeline_declaration& each : made->pipelines) {
    (void)doubts_about(each);
    require(timing_of_stages(each).size() == each.stages.size(), printed);
  }
  return 0;
}
