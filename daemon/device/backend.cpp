#include "daemon/device/backend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace penstock {
namespace {

std::string described(const device& opened) {
  const device_facts& facts = opened.facts();
  return facts.name + ", " + facts.detail;
}

opened_device opened(std::unique_ptr<device> device, const std::string& why) {
  std::string reason = device->facts().backend + " backend (" + described(*device) + "), " + why;
  return {std::move(device), std::move(reason)};
}

std::vector<opened_device> open_host(const device_settings& settings, const std::string& why) {
  std::vector<opened_device> all;
  all.push_back(opened(open_host_device(settings.host_threads), why));
  return all;
}

std::vector<int> wanted_ids(const device_settings& settings) {
  std::vector<int> ids = settings.ids;
  if (settings.every_device) {
    ids.resize(static_cast<std::size_t>(std::max(count_cuda_devices(), 1)));
    std::iota(ids.begin(), ids.end(), 0);
  }
  return ids;
}

// The first device says whether CUDA works at all.
std::vector<opened_device> open_cuda(const device_settings& settings, std::unique_ptr<device> first,
                                     const std::string& why) {
  std::vector<opened_device> all;
  all.push_back(opened(std::move(first), why));
  const std::vector<int> ids = wanted_ids(settings);
  for (std::size_t each = 1; each < ids.size(); ++each) {
    all.push_back(opened(open_cuda_device(ids[each]), why));
  }
  return all;
}

}  // namespace

std::vector<opened_device> open_devices(const device_settings& settings) {
  if (settings.backend == backend_choice::host) {
    return open_host(settings, "because the configuration asks for it");
  }
  if (settings.backend == backend_choice::cuda) {
    return open_cuda(settings, open_cuda_device(wanted_ids(settings).front()), "because the configuration asks for it");
  }
  std::unique_ptr<device> first;
  std::string obstacle;
  try {
    first = open_cuda_device(wanted_ids(settings).front());
  } catch (const device_error& error) {
    obstacle = error.what();
  }
  return first != nullptr ? open_cuda(settings, std::move(first), "because CUDA works on this machine")
                          : open_host(settings, "because CUDA does not work on this machine: " + obstacle);
}

bool may_take_cuda(const device_settings& settings) {
  if (settings.backend != backend_choice::automatic) {
    return settings.backend == backend_choice::cuda;
  }
  try {
    return count_cuda_devices() > 0;
  } catch (const device_error&) {
    return false;  // there is no module, or no driver
  }
}

opened_device open_device(const device_settings& settings) {
  device_settings one = settings;
  one.ids = {settings.ids.front()};
  one.every_device = false;
  return std::move(open_devices(one).front());
}

}  // namespace penstock
