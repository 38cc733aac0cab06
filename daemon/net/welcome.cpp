#include "daemon/net/welcome.hpp"

#include "daemon/request/wire_tensor.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

std::string body_for(std::uint32_t shard, const welcome_facts& facts) {
  wire::welcome body;
  body.answering = facts.shard;
  body.shard = shard;
  if (facts.directory != nullptr && facts.directory->size() > 1) {
    body.shards = facts.directory->endpoints();
  }
  body.server = facts.server;
  body.instance = facts.instance;
  body.credit_requests = facts.limits.credit_requests;
  body.credit_bytes = facts.limits.credit_bytes;
  body.max_request_bytes = facts.limits.max_request_bytes;
  body.shared_bytes = facts.shared_bytes;
  body.device_bytes = facts.device_bytes;
  body.device = facts.device;
  body.inline_bytes = wire::max_inline_bytes;
  for (const plan* const one : facts.served.in_order) {
    const plan& each = *one;
    wire::pipeline_description made;
    made.id = each.id;
    made.name = each.declaration.name;
    made.max_frames = static_cast<std::uint32_t>(each.max_frames);
    made.keeps_state = each.keeps_state();
    made.ordered = each.declaration.ordered;
    made.period = static_cast<std::uint64_t>(each.period);
    made.input = describe(each.input(), each.buffers.front().name, "");
    made.input.axis = each.declaration.time_axis;
    for (std::size_t input = 0; each.inputs != 1 && input < each.inputs; ++input) {
      made.inputs.push_back(input == 0 ? made.input : describe(each.buffers[input].spec, each.buffers[input].name, ""));
    }
    for (std::size_t output = 0; output < each.outputs.size(); ++output) {
      made.outputs.push_back(describe(each.output_spec(output), each.outputs[output].name, each.outputs[output].op));
      made.outputs.back().steps = each.outputs[output].steps;
      made.outputs.back().indices = each.outputs[output].indices;
    }
    body.pipelines.push_back(std::move(made));
  }
  for (const refused_pipeline& each : facts.served.refused) {
    body.quarantined.push_back({each.name, each.reason});
  }
  std::string json = wire::encode(body);
  const std::string all = with_resume(json, std::string(wire::resume_token_letters, '0'), /*resumed=*/false);
  if (all.size() > wire::max_body_bytes) {
    throw configuration_error("the " + std::to_string(facts.served.in_order.size()) + " pipelines take " +
                              std::to_string(all.size()) + " bytes to describe in WELCOME; at most " +
                              std::to_string(wire::max_body_bytes) + " fit: use fewer, or shorter names");
  }
  return json;
}

}  // namespace

std::string with_credit_bytes(std::string_view body, std::size_t bytes) {
  constexpr std::string_view key = "\"credit_bytes\":";
  const std::size_t begin = body.find(key) + key.size();
  const std::size_t end = body.find(',', begin);
  return std::string(body.substr(0, begin)) + std::to_string(bytes) + std::string(body.substr(end));
}

std::string with_resume(const std::string& body, const std::string& token, bool resumed) {
  return token.empty() ? body : body.substr(0, body.size() - 1) + wire::resume_keys(token, resumed);
}

std::vector<std::string> welcome_bodies(const welcome_facts& facts) {
  if (facts.directory == nullptr) {
    return {body_for(facts.shard, facts)};
  }
  std::vector<std::string> made;
  for (std::uint32_t shard = 0; shard < facts.directory->size(); ++shard) {
    made.push_back(body_for(shard, facts));
  }
  return made;
}

}  // namespace penstock
