#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/client_table.hpp"
#include "daemon/request/fair_queue.hpp"

namespace penstock::testing {

inline constexpr std::size_t quantum = 1000;

// Clients with requests of any size in one queue, and what each was served.
class fair_queue_rig : public ::testing::Test {
 protected:
  client_record& client(std::uint32_t place) {
    while (place >= clients_.size()) {
      const auto next = static_cast<std::uint32_t>(clients_.size());
      clients_.push_back(std::make_unique<client_record>(next, std::to_string(next), 1U));
    }
    return *clients_[place];
  }
  request& push(std::uint32_t from, std::size_t bytes) {
    request& made = pool_.emplace_back();
    made.client = &client(from);
    made.id = pool_.size();
    made.bytes = bytes;
    queue_.push(made);
    return made;
  }
  request& serve() {
    request& next = *queue_.first();
    queue_.take(next);
    served_[next.client->index] += next.bytes;
    return next;
  }
  // Clients that have requests of these sizes without end are served until one has had so many bytes.
  void serve_backlogs(const std::vector<std::size_t>& sizes, std::size_t bytes, std::size_t bound) {
    for (std::uint32_t from = 0; from < sizes.size(); ++from) {
      push(from, sizes[from]);
      push(from, sizes[from]);
    }
    while (served_[0] < bytes) {
      const std::uint32_t from = serve().client->index;
      push(from, sizes[from]);
      for (std::uint32_t one = 0; one < sizes.size(); ++one) {
        for (std::uint32_t other = 0; other < one; ++other) {
          const auto [least, most] = std::minmax(served_[one], served_[other]);
          ASSERT_LE(most - least, bound) << "clients " << one << " and " << other;
        }
      }
    }
  }

  std::vector<std::unique_ptr<client_record>> clients_;
  std::deque<request> pool_;
  fair_queue queue_{quantum};
  std::map<std::uint32_t, std::size_t> served_;
};

}  // namespace penstock::testing
