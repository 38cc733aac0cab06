#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include <minizip/unzip.h>
#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "base/sha256.hpp"
#include "kernels/model_package.hpp"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::size_t most_extents = 7;
constexpr std::int64_t most_elements = std::int64_t{1} << 40;
constexpr std::size_t most_inputs = 8;
constexpr std::size_t most_outputs = 15;
constexpr std::size_t most_members = 65536;
constexpr std::int64_t most_frames = std::int64_t{1} << 20;
constexpr std::size_t longest_text = std::size_t{16} << 20U;  // of penstock.json
constexpr std::array<std::string_view, 3> cpu_levels{"default", "avx2", "avx512"};
constexpr std::string_view facts_name = "extra/penstock.json";
constexpr std::string_view models_folder = "data/aotinductor/";

// -- the zip file -----------------------------------------------------------------------------------------------------

/// The bytes of a file, for minizip.
struct byte_source {
  std::string_view bytes;
  std::uint64_t at = 0;

  [[nodiscard]] zlib_filefunc64_def functions() noexcept {
    zlib_filefunc64_def made{};
    made.opaque = this;
    made.zopen64_file = [](void* self, const void* /*name*/, int /*mode*/) { return self; };
    made.zread_file = [](void* self, void* /*stream*/, void* to, uLong count) -> uLong {
      auto& source = *static_cast<byte_source*>(self);
      const std::string_view piece = source.bytes.substr(std::min<std::size_t>(source.at, source.bytes.size()), count);
      std::memcpy(to, piece.data(), piece.size());
      source.at += piece.size();
      return piece.size();
    };
    made.ztell64_file = [](void* self, void* /*stream*/) -> ZPOS64_T { return static_cast<byte_source*>(self)->at; };
    made.zseek64_file = [](void* self, void* /*stream*/, ZPOS64_T offset, int origin) -> long {
      auto& source = *static_cast<byte_source*>(self);
      const std::uint64_t from = origin == ZLIB_FILEFUNC_SEEK_CUR   ? source.at
                                 : origin == ZLIB_FILEFUNC_SEEK_END ? source.bytes.size()
                                                                    : 0;
      source.at = from + offset;
      return source.at <= source.bytes.size() ? 0 : -1;
    };
    made.zclose_file = [](void* /*self*/, void* /*stream*/) { return 0; };
    made.zerror_file = [](void* /*self*/, void* /*stream*/) { return 0; };
    return made;
  }
};

struct member {
  unz64_file_pos place{};
  std::uint64_t size = 0;
  bool is_compressed = false;
};

/// A zip file, as it is read.
class zip_file {
 public:
  explicit zip_file(std::string_view bytes) : source_{bytes, 0} {
    zlib_filefunc64_def functions = source_.functions();
    file_ = ::unzOpen2_64("", &functions);
    if (file_ == nullptr) {
      throw package_error("is not a zip file, or cut off: its end is missing");
    }
    try {
      list();
    } catch (...) {
      ::unzClose(file_);
      throw;
    }
  }
  zip_file(const zip_file&) = delete;
  zip_file& operator=(const zip_file&) = delete;
  ~zip_file() { ::unzClose(file_); }

  /// By their names.
  [[nodiscard]] const std::map<std::string, member>& members() const noexcept { return members_; }

  [[nodiscard]] std::string read(const std::string& name, const member& wanted, std::uint64_t most) {
    const auto damaged = [&] { return package_error("is damaged: its member " + printable(name) + " can't be read"); };
    if (wanted.is_compressed) {
      throw package_error("is compressed: its members are to be stored, as by `zip -0`");
    }
    if (wanted.size > most) {
      throw package_error("has a member " + printable(name) + " of " + std::to_string(wanted.size) +
                          " bytes; allowed are " + std::to_string(most));
    }
    if (::unzGoToFilePos64(file_, &wanted.place) != UNZ_OK || ::unzOpenCurrentFile(file_) != UNZ_OK) {
      throw damaged();
    }
    std::string text(static_cast<std::size_t>(wanted.size), '\0');
    std::size_t done = 0;
    while (done < text.size()) {
      constexpr std::size_t piece = std::size_t{1} << 30U;
      const int count =
          ::unzReadCurrentFile(file_, text.data() + done, static_cast<unsigned>(std::min(piece, text.size() - done)));
      if (count <= 0) {
        ::unzCloseCurrentFile(file_);
        throw damaged();
      }
      done += static_cast<std::size_t>(count);
    }
    if (::unzCloseCurrentFile(file_) != UNZ_OK) {  // its checksum is another
      throw damaged();
    }
    return text;
  }

 private:
  void list() {
    int found = ::unzGoToFirstFile(file_);
    for (; found == UNZ_OK; found = ::unzGoToNextFile(file_)) {
      unz_file_info64 facts{};
      std::array<char, 4096> name{};
      member made;
      if (::unzGetCurrentFileInfo64(file_, &facts, name.data(), name.size() - 1, nullptr, 0, nullptr, 0) != UNZ_OK ||
          ::unzGetFilePos64(file_, &made.place) != UNZ_OK || members_.size() == most_members) {
        break;
      }
      made.size = facts.uncompressed_size;
      made.is_compressed = facts.compression_method != 0;
      members_.emplace(name.data(), made);
    }
    if (found != UNZ_END_OF_LIST_OF_FILE) {
      throw package_error("is damaged: the list of its members can't be read");
    }
  }

  byte_source source_;
  unzFile file_ = nullptr;
  std::map<std::string, member> members_;
};

// -- penstock.json ----------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& place, const std::string& why) {
  throw package_error("has a penstock.json whose " + place + " " + why);
}

const json& required(const json& table, const char* key, const std::string& place) {
  const auto found = table.find(key);
  if (found == table.end()) {
    refuse(place.empty() ? std::string("\"") + key + "\"" : place + "." + key, "is missing");
  }
  return *found;
}

std::string text_of(const json& table, const char* key, bool may_lack) {
  const auto found = table.find(key);
  if (may_lack && (found == table.end() || found->is_null())) {
    return "";
  }
  const json& given = required(table, key, "");
  if (!given.is_string()) {
    refuse(key, "is no text");
  }
  return given.get<std::string>();
}

/// The level of CPUs that its code needs; "" without models for one.
std::string cpu_of(const json& facts) {
  const std::string level = text_of(facts, "cpu", true);
  if (level.empty() || std::find(cpu_levels.begin(), cpu_levels.end(), level) != cpu_levels.end()) {
    return level;
  }
  std::string all;
  for (const std::string_view each : cpu_levels) {
    all += (all.empty() ? "" : ", ") + std::string(each);
  }
  refuse("cpu", "is \"" + printable(level) + "\"; known: " + all);
}

model_tensor tensor_of(const json& given, const std::string& place, bool has_name) {
  if (!given.is_object()) {
    refuse(place, "is no table");
  }
  model_tensor made;
  if (has_name) {
    const json& name = required(given, "name", place);
    if (!name.is_string() || name.get<std::string>().empty()) {
      refuse(place + ".name", "is no name");
    }
    made.name = name.get<std::string>();
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    if (made.name.size() > 64 || made.name.find_first_not_of(letters) != std::string::npos) {
      refuse(place + ".name", "is no name: 1 to 64 of A-Z a-z 0-9 _ -");
    }
  }
  const json& type = required(given, "dtype", place);
  const std::optional<element_type> known = type.is_string() ? element_type_of(type.get<std::string>()) : std::nullopt;
  if (!known) {
    refuse(place + ".dtype", "is no type: " + printable(type.dump()));
  }
  made.spec.type = *known;
  const json& shape = required(given, "shape", place);
  if (!shape.is_array() || shape.size() > most_extents) {
    refuse(place + ".shape", "is no list of up to " + std::to_string(most_extents) + " extents");
  }
  std::int64_t elements = 1;
  for (const json& each : shape) {
    const std::int64_t extent = each.is_number_integer() ? each.get<std::int64_t>() : 0;
    if (extent < 1 || extent > most_elements / elements) {
      refuse(place + ".shape", "has an extent of " + printable(each.dump()));
    }
    elements *= extent;
    made.shape.push_back(extent);
  }
  made.spec.shape = made.shape.empty() ? std::vector<std::int64_t>{1} : made.shape;
  return made;
}

std::vector<model_tensor> tensors_of(const json& facts, const char* key, std::size_t most) {
  const json& given = required(facts, key, "");
  if (!given.is_array() || given.empty() || given.size() > most) {
    refuse(key, "is no list of 1 to " + std::to_string(most) + " tensors");
  }
  std::vector<model_tensor> made;
  for (std::size_t each = 0; each < given.size(); ++each) {
    made.push_back(tensor_of(given[each], std::string(key) + "[" + std::to_string(each) + "]", true));
    for (std::size_t before = 0; before < each; ++before) {
      if (made[before].name == made.back().name) {
        refuse(key, "has '" + made.back().name + "' twice");
      }
    }
  }
  return made;
}

std::vector<std::int64_t> buckets_of(const json& facts, const char* device) {
  const json& all = required(facts, "buckets", "");
  if (!all.is_object()) {
    refuse("buckets", "is no table");
  }
  const auto found = all.find(device);
  std::vector<std::int64_t> made;
  if (found == all.end() || found->is_null()) {
    return made;
  }
  const std::string place = std::string("buckets.") + device;
  if (!found->is_array()) {
    refuse(place, "is no list");
  }
  for (const json& each : *found) {
    const std::int64_t frames = each.is_number_integer() ? each.get<std::int64_t>() : 0;
    if (frames < 1 || frames > most_frames) {
      refuse(place, "has " + printable(each.dump()) + "; buckets are numbers of frames from 1");
    }
    made.push_back(frames);
  }
  std::sort(made.begin(), made.end());
  made.erase(std::unique(made.begin(), made.end()), made.end());
  return made;
}

/// The member that ends with this, below one folder or none.
const std::pair<const std::string, member>* ending_with(const zip_file& zip, std::string_view end) {
  for (const auto& each : zip.members()) {
    if (each.first == end ||
        (each.first.ends_with(end) && each.first.find('/') == each.first.size() - end.size() - 1)) {
      return &each;
    }
  }
  return nullptr;
}

/// The library of a model: the one .so in its folder.
const std::pair<const std::string, member>& library_of(const zip_file& zip, const std::string& top,
                                                       const std::string& model) {
  const std::string folder = top + std::string(models_folder) + model + "/";
  const std::pair<const std::string, member>* found = nullptr;
  for (const auto& each : zip.members()) {
    if (!each.first.starts_with(folder) || !each.first.ends_with(".so")) {
      continue;
    }
    if (found != nullptr) {
      throw package_error("has two libraries in " + printable(folder) +
                          ": models with parts of their own are not supported");
    }
    found = &each;
  }
  if (found == nullptr) {
    throw package_error("lacks the library of its model " + model + ": there is no .so in " + printable(folder));
  }
  return *found;
}

/// The operators of a model that PyTorch would have to run: nodes in a JSON file beside its library.
std::vector<std::string> proxied_of(zip_file& zip, const std::string& top, const std::string& model) {
  const std::string folder = top + std::string(models_folder) + model + "/";
  std::vector<std::string> names;
  for (const auto& [name, place] : zip.members()) {
    if (!name.starts_with(folder) || !name.ends_with(".json") || name.ends_with("_metadata.json")) {
      continue;
    }
    const json nodes = json::parse(zip.read(name, place, longest_text), nullptr, false);
    if (!nodes.is_object() || !nodes.contains("nodes") || !nodes["nodes"].is_array()) {
      continue;
    }
    for (const json& each : nodes["nodes"]) {
      const json target = each.is_object() && each.contains("node") && each["node"].is_object()
                              ? each["node"].value("target", json())
                              : json();
      if (target.is_string()) {
        names.push_back(target.get<std::string>());
      }
    }
  }
  return names;
}

json parsed(const std::string& text) {
  json facts = json::parse(text, nullptr, false);
  if (!facts.is_object()) {
    throw package_error("has a penstock.json that is no JSON table");
  }
  return facts;
}

}  // namespace

std::shared_ptr<const model_package> read_model_package(std::string_view bytes) {
  zip_file zip(bytes);
  const auto* const facts_member = ending_with(zip, facts_name);
  if (facts_member == nullptr) {
    throw package_error("has no extra/penstock.json: make it with penstock.torch.export");
  }
  const std::string top = facts_member->first.substr(0, facts_member->first.size() - facts_name.size());
  const json facts = parsed(zip.read(facts_member->first, facts_member->second, longest_text));
  if (const json& format = required(facts, "format", ""); format != 1) {
    throw package_error("has format " + printable(format.dump()) +
                        "; this daemon reads format 1: export it with this version's "
                        "penstock.torch");
  }
  auto made = std::make_shared<model_package>();
  made->sha256 = sha256_of(bytes);
  made->torch = printable(text_of(facts, "torch", false));
  made->cpu = cpu_of(facts);
  made->cuda = printable(text_of(facts, "cuda", true));
  made->inputs = tensors_of(facts, "inputs", most_inputs);
  made->outputs = tensors_of(facts, "outputs", most_outputs);
  if (const auto state = facts.find("state"); state != facts.end() && !state->is_null()) {
    made->state = tensor_of(*state, "state", false);
    made->state->name = "state";
  }
  for (const char* const device : {"cpu", "cuda"}) {
    for (const std::int64_t frames : buckets_of(facts, device)) {
      const std::string model = std::string(device) + "_" + std::to_string(frames);
      const auto& library = library_of(zip, top, model);
      try {
        made->parts.push_back({device, frames,
                               std::make_shared<const library_image>(
                                   zip.read(library.first, library.second, bytes.size()), library_life::of_object),
                               proxied_of(zip, top, model)});
      } catch (const library_error& error) {
        throw package_error("has a model " + model + " that " + error.what());
      }
    }
  }
  if (made->parts.empty()) {
    throw package_error("has no model: its buckets are empty");
  }
  return made;
}

}  // namespace penstock
