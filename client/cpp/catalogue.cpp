#include "client/cpp/catalogue.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <penstock/pipeline_info.hpp>

#include "client/cpp/endpoint.hpp"
#include "proto/message.hpp"
#include "proto/status.hpp"

namespace penstock::link {
namespace {

constexpr std::array<std::pair<std::string_view, wire::data_type>, 12> dtypes{{
    {"u8", wire::uint8_type},
    {"i8", wire::int8_type},
    {"i16", wire::int16_type},
    {"i32", wire::int32_type},
    {"f32", wire::float32_type},
    {"c64", wire::complex64_type},
    {"u16", wire::uint16_type},
    {"i64", wire::int64_type},
    {"f16", wire::float16_type},
    {"bf16", wire::bfloat16_type},
    {"f64", wire::float64_type},
    {"bool", wire::bool_type},
}};

}  // namespace

std::string_view name_of(const wire::data_type& type) noexcept {
  for (const auto& [name, each] : dtypes) {
    if (each == type) {
      return name;
    }
  }
  return "";
}

std::optional<wire::data_type> dtype_of(std::string_view name) noexcept {
  for (const auto& [each, type] : dtypes) {
    if (each == name) {
      return type;
    }
  }
  return std::nullopt;
}

std::span<const tensor_info> inputs_of(const pipeline_info& pipeline) noexcept {
  return pipeline.inputs.empty() ? std::span(&pipeline.input, 1) : std::span(pipeline.inputs);
}

}  // namespace penstock::link

namespace penstock {

std::size_t tensor_info::item_bytes() const noexcept {
  const auto type = link::dtype_of(dtype);
  return type ? type->item_bytes() : 0;
}

std::size_t tensor_info::frame_bytes(std::int64_t leading) const noexcept {
  std::size_t bytes = item_bytes();
  for (std::size_t at = 0; at < shape.size(); ++at) {
    const std::int64_t extent = at == 0 && leading > 0 ? leading : shape[at];
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      return 0;
    }
  }
  return bytes;
}

std::int64_t tensor_info::samples() const noexcept {
  return shape.empty() ? 1 : shape[axis];
}

std::size_t pipeline_info::frame_bytes(std::int64_t leading) const noexcept {
  std::size_t sum = 0;
  for (const tensor_info& each : link::inputs_of(*this)) {
    const std::size_t bytes = each.frame_bytes(each.variable ? leading : 0);
    if (bytes == 0 || __builtin_add_overflow(sum, bytes, &sum)) {
      return 0;
    }
  }
  return sum;
}

std::string tensor_info::text() const {
  std::string text = (element.empty() ? dtype : element) + "[";
  const bool pairs = element != dtype && !shape.empty() && shape.back() == 2 && dtype != "c64";
  const std::size_t shown = shape.size() - (pairs ? 1 : 0);
  for (std::size_t at = 0; at < shown; ++at) {
    text += at == 0 ? (variable ? "max " : "") : ", ";
    text += std::to_string(shape[at]);
  }
  return text + "]";
}

}  // namespace penstock

namespace penstock::link {
namespace {

tensor_info info_of(const wire::tensor_description& described) {
  return {described.name, described.dtype, described.element, described.shape, described.variable,
          described.op,   described.steps, described.indices, described.axis};
}

pipeline_info info_of(const wire::pipeline_description& described) {
  pipeline_info info{described.name,
                     described.id,
                     described.max_frames,
                     info_of(described.input),
                     {},
                     described.keeps_state,
                     described.ordered,
                     described.period,
                     {}};
  std::transform(described.outputs.begin(), described.outputs.end(), std::back_inserter(info.outputs),
                 [](const wire::tensor_description& output) { return info_of(output); });
  std::transform(described.inputs.begin(), described.inputs.end(), std::back_inserter(info.inputs),
                 [](const wire::tensor_description& input) { return info_of(input); });
  if (info.inputs.empty()) {
    info.inputs.push_back(info.input);
  }
  return info;
}

[[noreturn]] void refuse(wire::status why, std::string reason) {
  throw request_error{static_cast<std::uint16_t>(why), {std::move(reason), "client", {}, {}}};
}

void check_session(const pipeline_info& pipeline, const client::request& request, bool in_session) {
  if (pipeline.keeps_state && !in_session) {
    refuse(wire::status::session_required,
           "pipeline \"" + pipeline.name + "\" keeps state: open a session and submit through that");
  }
  const std::int64_t most = pipeline.input.shape.empty() ? 0 : pipeline.input.shape.front();
  const std::uint64_t leading = static_cast<std::uint64_t>(request.leading > 0 ? request.leading : most);
  if (in_session && request.frames > 1 && pipeline.period > 1 && leading % pipeline.period != 0) {
    const std::string allowed = pipeline.period <= static_cast<std::uint64_t>(most)
                                    ? "have a length that is a multiple of " + std::to_string(pipeline.period) +
                                          ", not " + std::to_string(leading)
                                    : "are never sent together";
    refuse(wire::status::wrong_shape,
           "several frames for \"" + pipeline.name + "\" in a session " + allowed + ": send one longer frame instead");
  }
}

void check_extents(const pipeline_info& pipeline, const client::request& request) {
  if (request.frames == 0 || request.frames > pipeline.max_frames) {
    refuse(wire::status::too_large, "pipeline \"" + pipeline.name + "\" takes 1 to " +
                                        std::to_string(pipeline.max_frames) + " frames a request, not " +
                                        std::to_string(request.frames));
  }
  const tensor_info& input = pipeline.input;
  const std::int64_t most = input.shape.empty() ? 0 : input.shape.front();
  const bool fits = request.leading == 0 || request.leading == most || (input.variable && request.leading < most);
  if (request.leading < 0 || !fits) {
    refuse(wire::status::wrong_shape, "pipeline \"" + pipeline.name + "\" takes " + input.text() +
                                          ": a leading extent of " + std::to_string(request.leading) + " does not fit");
  }
}

}  // namespace

catalogue::catalogue(const wire::welcome& welcome, std::string_view url)
    : server_{welcome.server,
              welcome.instance,
              welcome.credit_requests,
              welcome.credit_bytes,
              welcome.max_request_bytes,
              welcome.shared_bytes,
              welcome.answering,
              endpoints_of_all(welcome, url)},
      inline_bytes_(std::min<std::uint64_t>(welcome.inline_bytes, wire::max_inline_bytes)) {
  for (const wire::pipeline_description& each : welcome.pipelines) {
    pipelines_.push_back(std::make_shared<const pipeline_info>(info_of(each)));
    by_name_.insert_or_assign(each.name, pipelines_.back());
  }
  for (const wire::quarantined_pipeline& each : welcome.quarantined) {
    quarantined_.insert_or_assign(each.name, each.reason);
  }
}

std::vector<pipeline_info> catalogue::pipelines() const {
  std::vector<pipeline_info> all;
  std::transform(pipelines_.begin(), pipelines_.end(), std::back_inserter(all),
                 [](const std::shared_ptr<const pipeline_info>& each) { return *each; });
  return all;
}

std::shared_ptr<const pipeline_info> catalogue::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::string catalogue::why_quarantined(std::string_view name) const {
  const auto found = quarantined_.find(name);
  return found == quarantined_.end() ? "" : found->second;
}

std::shared_ptr<const pipeline_info> catalogue::at(std::string_view name) const {
  auto pipeline = find(name);
  if (std::string why = why_quarantined(name); pipeline == nullptr && !why.empty()) {
    refuse(wire::status::unknown_pipeline, std::move(why));
  }
  if (pipeline == nullptr) {
    std::string reason = "there is no pipeline \"" + std::string(name) + "\"; the daemon has";
    for (const auto& each : pipelines_) {
      reason += (each == pipelines_.front() ? " " : ", ") + each->name;
    }
    refuse(wire::status::unknown_pipeline, pipelines_.empty() ? reason + " none" : reason);
  }
  return pipeline;
}

std::shared_ptr<const pipeline_info> catalogue::check(std::string_view name, const client::request& request,
                                                      bool in_session) const {
  auto pipeline = at(name);
  for (const tensor_info& each : inputs_of(*pipeline)) {
    if (each.item_bytes() == 0) {
      refuse(wire::status::wrong_dtype, "pipeline \"" + pipeline->name + "\" takes \"" + each.dtype +
                                            "\", which this client does not know: it is older than the daemon");
    }
  }
  check_extents(*pipeline, request);
  check_session(*pipeline, request, in_session);
  const std::size_t frame = pipeline->frame_bytes(request.leading);
  std::size_t expected = 0;
  if (__builtin_mul_overflow(frame, std::size_t{request.frames}, &expected) || request.bytes.size() != expected) {
    std::string takes;
    for (const tensor_info& each : inputs_of(*pipeline)) {
      takes += (takes.empty() ? "" : " and ") + each.text();
    }
    refuse(wire::status::wrong_shape, std::to_string(request.frames) + " frames of " + takes + " are " +
                                          std::to_string(expected) + " bytes, not " +
                                          std::to_string(request.bytes.size()));
  }
  if (request.bytes.size() > server_.max_request_bytes) {
    refuse(wire::status::too_large, "a request may have at most " + std::to_string(server_.max_request_bytes) +
                                        " bytes, not " + std::to_string(request.bytes.size()));
  }
  return pipeline;
}

}  // namespace penstock::link
