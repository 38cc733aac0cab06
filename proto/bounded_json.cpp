#include "proto/bounded_json.hpp"

#include <string>
#include <utility>
#include <vector>

namespace penstock::wire {
namespace {

using json = nlohmann::json;

/// Builds a value from what the parser meets, and stops it at a bound.
class bounded_builder final : public nlohmann::json_sax<json> {
 public:
  explicit bounded_builder(const json_bounds& most) : most_(most) {}

  [[nodiscard]] json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override { return open(json::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    member_ = &(*open_.back())[name];
    return true;
  }
  bool parse_error(std::size_t /*where*/, const std::string& /*token*/, const json::exception& /*why*/) override {
    return false;
  }

 private:
  bool put(json value) {
    if (values_ == most_.values) {
      return false;
    }
    ++values_;
    if (open_.empty()) {
      latest_ = &root_;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      latest_ = &open_.back()->back();
    } else {
      latest_ = member_;
    }
    *latest_ = std::move(value);
    return true;
  }
  bool open(json value) {
    if (open_.size() == most_.depth || !put(std::move(value))) {
      return false;
    }
    open_.push_back(latest_);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json_bounds most_;
  json root_;
  std::vector<json*> open_;  // from the outside in; only the last one grows, so that none of them moves
  json* member_ = nullptr;   // of the innermost object: the value of the key that was read last
  json* latest_ = nullptr;
  std::size_t values_ = 0;
};

}  // namespace

std::optional<nlohmann::json> read_json(std::string_view text, const json_bounds& most) {
  if (text.size() > most.bytes) {
    return std::nullopt;
  }
  bounded_builder builder(most);
  if (!json::sax_parse(text.data(), text.data() + text.size(), &builder)) {
    return std::nullopt;
  }
  return builder.take();
}

}  // namespace penstock::wire
