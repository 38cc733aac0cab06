#include "daemon/admin/http/trace_collector.hpp"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include <boost/asio/post.hpp>
#include <spdlog/spdlog.h>

#include "proto/message.hpp"
#include "proto/timeline/chrome_trace.hpp"

namespace penstock {
namespace {

// A page that is not its shard's newest ends where the next batch does not fit, which is in its last three quarters.
constexpr std::size_t small_page = wire::max_body_bytes / 4;
// A shard that is quicker than it is read would never be caught up with.
constexpr std::size_t most_rounds = 4096;

std::string timeline_of(const std::deque<std::string>& pages, std::chrono::nanoseconds last) {
  try {
    chrome_trace made;
    std::int64_t now = 0;
    for (const std::string& page : pages) {
      made.add(page);
      now = std::max(now, made.last_page().now_ns);
    }
    made.keep_since(now - last.count());
    std::ostringstream out;
    made.write(out);
    return std::move(out).str();
  } catch (const std::exception& wrong) {
    spdlog::error("no timeline could be made: {}", wrong.what());
    return "";
  }
}

}  // namespace

trace_collector::trace_collector(boost::asio::io_context& admin, question ask) : admin_(admin), ask_(std::move(ask)) {}

void trace_collector::collect(std::size_t shards, std::chrono::nanoseconds last, consumer done) {
  gathered_ = std::make_shared<gathering>();
  gathered_->last = last;
  gathered_->done = std::move(done);
  gathered_->next.assign(shards, 0);
  ask();
}

void trace_collector::ask() {
  ask_(gathered_->next, [this](const timeline_answers& answers) { take(answers); });
}

void trace_collector::take(const timeline_answers& answers) {
  gathering& into = *gathered_;
  bool any_left = false;
  for (std::size_t number = 0; number < answers.size(); ++number) {
    if (!into.next[number]) {
      continue;
    }
    if (!answers[number]) {
      into.next[number].reset();
      continue;
    }
    const timeline_page& page = *answers[number];
    into.next[number] = page.next;
    if (page.json.size() < small_page) {
      into.next[number].reset();
    }
    any_left = any_left || into.next[number];
    into.bytes += page.json.size();
    into.pages.push_back(page.json);
  }
  for (; into.bytes > most_bytes; into.pages.pop_front()) {
    into.bytes -= into.pages.front().size();
  }
  if (any_left && ++into.rounds < most_rounds) {
    ask();
  } else {
    write();
  }
}

void trace_collector::write() {
  boost::asio::post(writer_, [this, from = gathered_] {
    boost::asio::post(admin_, [this, from, made = timeline_of(from->pages, from->last)]() mutable {
      gathered_ = nullptr;
      from->done(std::move(made));
    });
  });
}

}  // namespace penstock
