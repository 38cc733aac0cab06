#include "daemon/security/refusal_log.hpp"

#include <memory>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

namespace penstock {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

/// What is logged while it lives.
class RefusalLog : public ::testing::Test {
 protected:
  RefusalLog() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out_);
    auto log = std::make_shared<spdlog::logger>("test", std::move(sink));
    log->set_pattern("%v");
    spdlog::set_default_logger(std::move(log));
  }
  ~RefusalLog() override { spdlog::set_default_logger(before_); }

  [[nodiscard]] std::string taken() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  refusal_log log_;
  const refusal_log::time_point start_ = refusal_log::time_point{} + std::chrono::hours(1);

 private:
  std::ostringstream out_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(RefusalLog, SaysTheFirstAtOnceAndTheOthersTogether) {
  log_.note(handshake_refusal::unlisted_key, "192.0.2.7", start_);
  EXPECT_THAT(taken(), HasSubstr("refused a connection from 192.0.2.7: the key is not in"));
  for (int each = 0; each < 1000; ++each) {
    log_.note(handshake_refusal::unlisted_key, "192.0.2.8", start_ + seconds(1));
  }
  log_.flush(start_ + seconds(2));
  EXPECT_EQ(taken(), "");
  EXPECT_EQ(log_.next(), start_ + refusal_log::interval);
  log_.flush(start_ + refusal_log::interval);
  EXPECT_THAT(taken(), HasSubstr("refused 1000 connections, the last from 192.0.2.8"));
  EXPECT_EQ(log_.next(), refusal_log::time_point::max());
}

TEST_F(RefusalLog, KeepsKindsApart) {
  log_.note(handshake_refusal::unlisted_key, "", start_);
  log_.note(handshake_refusal::wrong_mechanism, "", start_);
  EXPECT_THAT(taken(), ::testing::AllOf(HasSubstr("the key is not in"), HasSubstr("plain text")));
}

}  // namespace
}  // namespace penstock
