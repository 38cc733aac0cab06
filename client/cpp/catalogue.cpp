#include "client/cpp/catalogue.hpp"

#include <algorithm>

#include "client/cpp/shard_choice.hpp"
#include "proto/message.hpp"
#include "proto/status.hpp"

namespace penstock::link {
namespace {

tensor_info info_of(const wire::tensor_description& from) {
  return {from.name, from.dtype, from.element, from.shape, from.variable, from.op, from.steps};
}

pipeline_info info_of(const wire::pipeline_description& from) {
  pipeline_info info{from.name, from.id,          from.max_frames, info_of(from.input),
                     {},        from.keeps_state, from.ordered,    from.period};
  std::transform(from.outputs.begin(), from.outputs.end(), std::back_inserter(info.outputs),
                 [](const wire::tensor_description& output) { return info_of(output); });
  return info;
}

[[noreturn]] void refuse(wire::status why, std::string reason) {
  throw request_error{static_cast<std::uint16_t>(why), {std::move(reason), "client", {}, {}}};
}

void check_session(const pipeline_info& pipeline, const client::request& what, bool in_session) {
  if (pipeline.keeps_state && !in_session) {
    refuse(wire::status::session_required,
           "pipeline \"" + pipeline.name + "\" keeps state: open a session and submit through that");
  }
  const std::int64_t most = pipeline.input.shape.empty() ? 0 : pipeline.input.shape.front();
  const std::uint64_t leading = static_cast<std::uint64_t>(what.leading > 0 ? what.leading : most);
  if (in_session && what.frames > 1 && pipeline.period > 1 && leading % pipeline.period != 0) {
    refuse(wire::status::wrong_shape, "several frames for \"" + pipeline.name +
                                          "\" have a length that is a multiple of " + std::to_string(pipeline.period) +
                                          ", not " + std::to_string(leading) + ": send one frame a request");
  }
}

void check_extents(const pipeline_info& pipeline, const client::request& what) {
  if (what.frames == 0 || what.frames > pipeline.max_frames) {
    refuse(wire::status::too_large, "pipeline \"" + pipeline.name + "\" takes 1 to " +
                                        std::to_string(pipeline.max_frames) + " frames a request, not " +
                                        std::to_string(what.frames));
  }
  const tensor_info& input = pipeline.input;
  const std::int64_t most = input.shape.empty() ? 0 : input.shape.front();
  const bool fits = what.leading == 0 || what.leading == most || (input.variable && what.leading < most);
  if (what.leading < 0 || !fits) {
    refuse(wire::status::wrong_shape, "pipeline \"" + pipeline.name + "\" takes " + input.text() +
                                          ": a leading extent of " + std::to_string(what.leading) + " does not fit");
  }
}

}  // namespace

catalogue::catalogue(const wire::welcome& from, std::string_view url)
    : server_{from.server,       from.instance,  from.credit_requests,       from.credit_bytes, from.max_request_bytes,
              from.shared_bytes, from.answering, endpoints_of_all(from, url)},
      inline_bytes_(std::min<std::uint64_t>(from.inline_bytes, wire::max_inline_bytes)) {
  for (const wire::pipeline_description& each : from.pipelines) {
    pipelines_.push_back(std::make_shared<const pipeline_info>(info_of(each)));
    by_name_.insert_or_assign(each.name, pipelines_.back());
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

std::shared_ptr<const pipeline_info> catalogue::at(std::string_view name) const {
  auto pipeline = find(name);
  if (pipeline == nullptr) {
    std::string reason = "there is no pipeline \"" + std::string(name) + "\"; the daemon has";
    for (const auto& each : pipelines_) {
      reason += (each == pipelines_.front() ? " " : ", ") + each->name;
    }
    refuse(wire::status::unknown_pipeline, pipelines_.empty() ? reason + " none" : reason);
  }
  return pipeline;
}

std::shared_ptr<const pipeline_info> catalogue::check(std::string_view name, const client::request& what,
                                                      bool in_session) const {
  auto pipeline = at(name);
  check_extents(*pipeline, what);
  check_session(*pipeline, what, in_session);
  const std::size_t frame = pipeline->input.frame_bytes(what.leading);
  std::size_t expected = 0;
  if (__builtin_mul_overflow(frame, std::size_t{what.frames}, &expected) || what.bytes.size() != expected) {
    refuse(wire::status::wrong_shape, std::to_string(what.frames) + " frames of " + pipeline->input.text() + " are " +
                                          std::to_string(expected) + " bytes, not " +
                                          std::to_string(what.bytes.size()));
  }
  if (what.bytes.size() > server_.max_request_bytes) {
    refuse(wire::status::too_large, "a request may have at most " + std::to_string(server_.max_request_bytes) +
                                        " bytes, not " + std::to_string(what.bytes.size()));
  }
  return pipeline;
}

}  // namespace penstock::link
