#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "base/descriptors.hpp"
#include "client/cli/commands.hpp"
#include "client/cpp/curve_keys.hpp"

namespace penstock::cli {
namespace {

struct keygen_options {
  std::string file = "penstock.key";
  std::string show;
  std::string name;
  bool force = false;
};

struct key_pair {
  std::array<char, 41> public_key{};
  std::array<char, 41> secret_key{};
};

/// A key pair whose public key begins with a letter or digit, so that shells and option parsers accept it.
key_pair new_pair() {
  key_pair made;
  do {
    if (::zmq_curve_keypair(made.public_key.data(), made.secret_key.data()) != 0) {
      throw std::runtime_error("this libzmq has no CURVE, so that no keys can be made");
    }
  } while (std::isalnum(static_cast<unsigned char>(made.public_key.front())) == 0);
  return made;
}

[[noreturn]] void fail(const std::string& file, int error) {
  const bool exists = error == EEXIST;
  throw std::runtime_error("can't write " + file + ": " +
                           (exists ? "it exists already, and a client with that key could no longer connect; --force "
                                     "takes its place"
                                   : std::generic_category().message(error)));
}

/// Creates the file atomically, with mode 0600.
void write_secret(const std::string& file, const key_pair& pair, bool force) {
  const std::string text = "# A secret key of Penstock: whoever has it can pass for you. Its public key:\n# " +
                           std::string(pair.public_key.data()) + "\n" + pair.secret_key.data() + "\n";
  const std::string fresh = force ? file + ".new" : file;
  file_descriptor made{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!made) {
    fail(fresh, errno);
  }
  const bool written = ::fchmod(made.number(), S_IRUSR | S_IWUSR) == 0 &&
                       ::write(made.number(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(made.number()) == 0;
  const int error = errno;
  made.close();
  if (!written || (force && ::rename(fresh.c_str(), file.c_str()) != 0)) {
    const int reason = written ? errno : error;
    ::unlink(fresh.c_str());
    fail(file, reason);
  }
}

std::string own_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const char* const user = std::getenv("USER");
  return std::string(user != nullptr ? user : "penstock") + "@" + host.data();
}

int keygen(const keygen_options& options) {
  if (!options.show.empty()) {
    std::cout << link::public_key_in(options.show) << "\n";
    return EXIT_SUCCESS;
  }
  const key_pair pair = new_pair();
  write_secret(options.file, pair, options.force);
  std::cerr << "The secret key is in " << options.file << ". Keep it to yourself, and give the public key away:\n"
            << "  of a daemon, to its clients:    --server-key '" << pair.public_key.data() << "'\n"
            << "  of a client, to its daemon, as a line of security.authorized_keys_file:\n";
  std::cout << pair.public_key.data() << " " << (options.name.empty() ? own_name() : options.name) << "\n";
  return EXIT_SUCCESS;
}

}  // namespace

void declare_keygen(CLI::App& app, action& chosen) {
  auto* const command = app.add_subcommand(
      "keygen",
      "Makes a key, of a daemon or of a client: writes the secret half into a file that only you can read, and prints\n"
      "the public half as a line for a daemon's list of authorised keys.");
  const auto options = std::make_shared<keygen_options>();
  command->add_option("-o,--output", options->file, "The file to write")->type_name("FILE")->capture_default_str();
  command->add_option("--name", options->name, "Who it belongs to, for the list; you and this machine, if not given")
      ->type_name("TEXT");
  command->add_flag("--force", options->force, "Take the place of a key that is there");
  command->add_option("--show", options->show, "Print the public key of this file instead")->type_name("FILE");
  command->callback([&chosen, options] { chosen = [options] { return keygen(*options); }; });
}

}  // namespace penstock::cli
