#include "daemon/device/backend.hpp"

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

opened_device open_automatically(const device_settings& settings) {
  std::string obstacle;
  try {
    return opened(open_cuda_device(settings.id), "because CUDA works on this machine");
  } catch (const device_error& error) {
    obstacle = error.what();
  }
  return opened(open_host_device(settings.host_threads), "because CUDA does not work on this machine: " + obstacle);
}

}  // namespace

opened_device open_device(const device_settings& settings) {
  switch (settings.backend) {
    case backend_choice::cuda:
      return opened(open_cuda_device(settings.id), "because the configuration asks for it");
    case backend_choice::host:
      return opened(open_host_device(settings.host_threads), "because the configuration asks for it");
    case backend_choice::automatic:
      break;
  }
  return open_automatically(settings);
}

}  // namespace penstock
