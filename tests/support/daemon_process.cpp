#include "tests/support/daemon_process.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/raw_peer.hpp"

namespace penstock::testing {
namespace {

namespace fs = std::filesystem;

// PENSTOCK_BIN, or where builds and bundles have it: beside this program or in ../bin.
std::string penstockd() {
  if (const char* folder = std::getenv("PENSTOCK_BIN")) {
    return std::string(folder) + "/penstockd";
  }
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path beside = here / "penstockd";
  return (fs::exists(beside) ? beside : here.parent_path() / "bin" / "penstockd").string();
}

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Starts the program with stdout and stderr in `log`.
pid_t spawn(const std::vector<std::string>& arguments, const fs::path& log) {
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error("cannot start a process");
  }
  if (child > 0) {
    return child;
  }
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  ::execv(words[0], words.data());
  ::_exit(127);
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

std::vector<std::string> backends_to_test() {
  const char* asked = std::getenv("PENSTOCK_TEST_BACKENDS");
  std::vector<std::string> names;
  std::istringstream list(asked != nullptr ? asked : "host");
  for (std::string name; std::getline(list, name, ',');) {
    names.push_back(name);
  }
  return names;
}

daemon_process::daemon_process(const daemon_options& options)
    : endpoint_(options.listen.empty() ? "ipc://" + (folder_.path() / "data").string() : options.listen) {
  start(options);
  try {
    await_ready();
  } catch (...) {
    signal(SIGKILL);
    wait();
    throw;
  }
}

daemon_process::~daemon_process() {
  if (running()) {
    signal(SIGKILL);
    wait();
  }
}

void daemon_process::start(const daemon_options& options) {
  const fs::path file = folder_.path() / "penstock.toml";
  std::ofstream(file) << options.configuration;
  const std::string admin = options.admin.empty() ? "unix:" + (folder_.path() / "admin").string() : options.admin;
  pid_ = spawn({penstockd(), "--config", file.string(), "--listen", endpoint_, "--admin", admin, "--backend",
                options.backend, "--completion", options.completion},
               folder_.path() / "log");
}

void daemon_process::await_ready() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  raw_peer peer(endpoint_);
  while (std::chrono::steady_clock::now() < give_up) {
    if (!running()) {
      throw std::runtime_error("penstockd ended before it was ready:\n" + log());
    }
    peer.send_control(wire::message_type::ping, 1);
    if (peer.receive(std::chrono::milliseconds{200})) {
      return;
    }
  }
  throw std::runtime_error("penstockd did not become ready:\n" + log());
}

void daemon_process::reload(const std::string& configuration) {
  if (asking_ == nullptr) {
    asking_ = std::make_unique<raw_peer>(endpoint_);
  }
  const auto version = [&] { return asking_->status().at("configuration").at("version").get<std::uint64_t>(); };
  const std::uint64_t before = version();
  const fs::path file = folder_.path() / "penstock.toml";
  std::ofstream(file) << configuration;
  signal(SIGHUP);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (version() == before) {
    if (std::chrono::steady_clock::now() > give_up) {
      throw std::runtime_error("penstockd does not serve another configuration:\n" + log());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

bool daemon_process::running() {
  if (pid_ < 0) {
    return false;
  }
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = exit_code_of(status);
    pid_ = -1;
  }
  return pid_ >= 0;
}

void daemon_process::signal(int number) const {
  // kill(-1) would reach every process there is.
  if (pid_ > 0) {
    ::kill(pid_, number);
  }
}

int daemon_process::wait() {
  int status = 0;
  if (pid_ >= 0 && ::waitpid(pid_, &status, 0) == pid_) {
    exit_code_ = exit_code_of(status);
    pid_ = -1;
  }
  return exit_code_;
}

int daemon_process::stop() {
  signal(SIGTERM);
  return wait();
}

std::string daemon_process::log() const {
  return read_file(folder_.path() / "log");
}

std::string free_tcp_endpoint() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool known = ::bind(probe, generic, length) == 0 && ::getsockname(probe, generic, &length) == 0;
  ::close(probe);
  if (!known) {
    throw std::runtime_error("no free port on the loopback address");
  }
  return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

int run_penstockd(const std::vector<std::string>& arguments, std::string& output) {
  const temporary_folder folder;
  std::vector<std::string> words{penstockd()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  int status = 0;
  ::waitpid(spawn(words, folder.path() / "log"), &status, 0);
  output = read_file(folder.path() / "log");
  return exit_code_of(status);
}

}  // namespace penstock::testing
