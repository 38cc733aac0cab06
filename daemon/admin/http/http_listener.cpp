#include "daemon/admin/http/http_listener.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <sys/stat.h>

namespace penstock {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;

constexpr mode_t socket_mode = 0660;

std::string url_of(const std::string& host, std::uint16_t port) {
  const bool six = host.find(':') != std::string::npos;
  return "http://" + (six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool somebody_listens(const std::string& path) {
  asio::io_context alone;
  stream_protocol::socket probe(alone);
  boost::system::error_code refused;
  probe.connect(stream_protocol::endpoint(path), refused);
  return refused != asio::error::connection_refused;
}

}  // namespace

http_listener::http_listener(asio::io_context& on, const admin_address& where)
    : acceptor_(on), rest_(on), path_(where.path) {
  name_ = is_unix() ? "unix:" + where.path : url_of(where.host, where.port);
  try {
    is_unix() ? bind_unix() : bind_tcp(where);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("the admin endpoint can't listen on " + name_ + ": " + error.code().message() +
                             " ([admin] listen says where)");
  }
}

http_listener::~http_listener() {
  close();
}

void http_listener::bind_tcp(const admin_address& where) {
  const tcp::endpoint wanted(asio::ip::make_address(where.host), where.port);
  acceptor_.open(wanted.protocol());
  acceptor_.set_option(acceptor::reuse_address(true));
  acceptor_.bind(wanted);
  const auto bound = acceptor_.local_endpoint();
  tcp::endpoint read;
  std::memcpy(read.data(), bound.data(), std::min(bound.size(), read.capacity()));
  name_ = url_of(where.host, read.port());
}

void http_listener::bind_unix() {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) && !somebody_listens(path_)) {
    std::error_code kept;
    std::filesystem::remove(path_, kept);
    if (kept) {
      throw boost::system::system_error(boost::system::error_code(kept.value(), boost::system::system_category()));
    }
  }
  acceptor_.open(stream_protocol());
  acceptor_.bind(stream_protocol::endpoint(path_.string()));
  file_is_ours_ = true;
  std::error_code refused;
  std::filesystem::permissions(path_, std::filesystem::perms{socket_mode}, refused);
  if (refused) {
    throw boost::system::system_error(boost::system::error_code(refused.value(), boost::system::system_category()));
  }
}

void http_listener::listen() {
  boost::system::error_code failed;
  acceptor_.listen(acceptor::max_listen_connections, failed);
  if (failed) {
    throw std::runtime_error("the admin endpoint can't listen on " + name_ + ": " + failed.message());
  }
}

void http_listener::close() noexcept {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  if (file_is_ours_) {
    file_is_ours_ = false;
    std::error_code gone;
    std::filesystem::remove(path_, gone);
  }
}

}  // namespace penstock
