#include "client/cpp/shard_choice.hpp"

#include <algorithm>
#include <vector>

namespace penstock::link {
namespace {

/// "tcp://HOST:PORT" in its three parts; other transports have no host.
struct endpoint {
  std::string_view transport;
  std::string_view host;
  std::string_view rest;  ///< ":PORT", or a path
};

endpoint parts_of(std::string_view url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) {
    return {{}, {}, url};
  }
  const std::string_view transport = url.substr(0, colon);
  const std::string_view address = url.substr(colon + 3);
  const std::size_t port = transport == "tcp" ? address.rfind(':') : 0;
  if (port == std::string_view::npos) {
    return {transport, address, {}};
  }
  return {transport, address.substr(0, port), address.substr(port)};
}

/// A host that stands for all of the daemon's is the one that the client was given.
std::string reachable(std::string_view listed, const endpoint& own) {
  const endpoint parts = parts_of(listed);
  const bool any_host = parts.host == "*" || parts.host == "0.0.0.0" || parts.host == "[::]";
  if (!any_host || own.transport != parts.transport) {
    return std::string(listed);
  }
  return std::string(parts.transport) + "://" + std::string(own.host) + std::string(parts.rest);
}

/// Of shard `number`, which the welcome lists as it does the one that has answered.
std::optional<std::string> endpoint_of(const wire::welcome& welcome, std::size_t number, std::string_view url) {
  const endpoint own = parts_of(url);
  const std::vector<std::string>& here = welcome.shards[welcome.answering];
  const std::vector<std::string>& there = welcome.shards[number];
  const auto same =
      std::find_if(here.begin(), here.end(), [&](const std::string& each) { return reachable(each, own) == url; });
  const auto place = static_cast<std::size_t>(same - here.begin());
  if (same != here.end() && place < there.size()) {
    return reachable(there[place], own);
  }
  const auto alike = std::find_if(there.begin(), there.end(),
                                  [&](const std::string& each) { return parts_of(each).transport == own.transport; });
  return alike == there.end() ? std::nullopt : std::optional{reachable(*alike, own)};
}

}  // namespace

std::optional<std::string> better_endpoint(const wire::welcome& welcome, std::string_view url) {
  const std::size_t shards = welcome.shards.size();
  if (welcome.shard == welcome.answering || welcome.shard >= shards || welcome.answering >= shards) {
    return std::nullopt;
  }
  return endpoint_of(welcome, welcome.shard, url);
}

std::vector<std::string> endpoints_of_all(const wire::welcome& welcome, std::string_view url) {
  if (welcome.answering >= welcome.shards.size()) {
    return {};
  }
  std::vector<std::string> all;
  for (std::size_t number = 0; number < welcome.shards.size(); ++number) {
    all.push_back(number == welcome.answering ? std::string(url) : endpoint_of(welcome, number, url).value_or(""));
  }
  return all;
}

}  // namespace penstock::link
