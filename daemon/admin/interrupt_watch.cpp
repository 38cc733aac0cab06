#include "daemon/admin/interrupt_watch.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

namespace penstock {
namespace {

constexpr auto pause = std::chrono::seconds{10};

std::string text_of(const std::vector<int>& processors) {
  std::string text;
  for (const int each : processors) {
    text += (text.empty() ? "" : ", ") + std::to_string(each);
  }
  return (processors.size() == 1 ? "processor " : "processors ") + text;
}

}  // namespace

interrupt_watch::interrupt_watch(boost::asio::io_context& admin, device_interrupts devices, std::size_t least)
    : devices_(std::move(devices)), least_(least), timer_(admin) {
  look();
}

void interrupt_watch::look() {
  std::vector<int> taking = devices_.look();
  // The same again too: threads may have come that a thread started which is not kept off.
  if (!taking.empty() && threads_.keep_off(taking, least_) && taking != off_) {
    spdlog::info("the daemon's threads stay off {}, where the interrupts of its devices arrive", text_of(taking));
    off_ = std::move(taking);
  }
  timer_.expires_after(pause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      look();
    }
  });
}

}  // namespace penstock
