#include "daemon/security/authorized_keys.hpp"

#include <algorithm>
#include <utility>

#include "daemon/pipeline/declaration.hpp"
#include "daemon/security/guarded_file.hpp"

namespace penstock {
namespace {

constexpr std::string_view blanks = " \t\r";
constexpr std::size_t longest_name = 255;  // of a ZAP user id

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(blanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// The line's name, as far as a log can show it.
std::string name_in(std::string_view rest) {
  std::string name(trimmed(rest).substr(0, longest_name));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return letter < 0x20 || letter == 0x7F; }, '?');
  return name;
}

}  // namespace

authorized_keys authorized_keys::read(const std::filesystem::path& file) {
  return parse(read_guarded_file(file, file_guard::trusted), file.string());
}

authorized_keys authorized_keys::parse(std::string_view text, const std::string& name) {
  authorized_keys made;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (is_comment(line)) {
      continue;
    }
    const std::string place = name + ":" + std::to_string(number) + ": ";
    const std::size_t gap = std::min(line.find_first_of(blanks), line.size());
    const std::optional<curve_public_key> key = parse_curve_key(line.substr(0, gap));
    if (!key) {
      throw configuration_error(place +
                                "does not begin with a public key of 40 letters, as penstock keygen prints it; a "
                                "comment begins with #");
    }
    if (!made.names_.emplace(*key, name_in(line.substr(gap))).second) {
      throw configuration_error(place + "has a key that stands further up too");
    }
  }
  if (made.names_.empty()) {
    throw configuration_error(name + ": holds no key, so that nobody could connect; penstock keygen makes one");
  }
  return made;
}

std::optional<std::string_view> authorized_keys::find(const curve_public_key& key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? std::nullopt : std::optional<std::string_view>{found->second};
}

}  // namespace penstock
