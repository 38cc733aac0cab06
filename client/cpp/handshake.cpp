#include "client/cpp/handshake.hpp"

#include <utility>

#include "client/cpp/endpoint.hpp"
#include "client/cpp/messages.hpp"

namespace penstock::link {

handshake::handshake(client_options& options, dealer_socket& socket, credit_window& credits, atomic_counters& counters,
                     handshake_listener listener)
    : options_(options),
      socket_(socket),
      credits_(credits),
      counters_(counters),
      listener_(std::move(listener)),
      timer_(options.retry_after, options.retry_limit) {}

void handshake::follow_connection(time_point now) {
  for (auto change = socket_.next_change(); change != dealer_socket::change::none; change = socket_.next_change()) {
    note_change(change, now);
  }
}

void handshake::note_change(dealer_socket::change change, time_point now) {
  using kind = dealer_socket::change;
  if (change == kind::connected) {
    timer_.connected(now);
    return;
  }
  timer_.disconnected();
  if (change == kind::unauthorized) {
    listener_.failed(
        "this client's key is not among the authorised ones: its public key, which penstock keygen --show "
        "FILE prints, belongs into the daemon's security.authorized_keys_file",
        true);
  } else if (change == kind::mechanism_mismatch) {
    listener_.failed(socket_.has_keys() ? "it asks for no keys: leave the server key and the key file out"
                                        : "it asks for keys: give its public key and a key file of your own",
                     true);
  } else if (change == kind::handshake_closed) {
    listener_.failed(socket_.has_keys() ? "the connection is closed during its handshake: is the server key the "
                                          "daemon's, and does it ask for keys?"
                                        : "the connection is closed during its handshake: does the daemon ask for "
                                          "keys?",
                     false);
  }
}

void handshake::send_hello_if_due(time_point now) {
  if (timer_.hello_at() > now) {
    return;
  }
  auto message = hello_message(hello_id, options_.name, token_);
  if (socket_.send(message)) {
    atomic_counters::count(counters_.hellos);
  }
  timer_.sent(now);
}

std::optional<handshake::accepted_welcome> handshake::read(const std::vector<zmq::message_t>& parts) {
  auto body = parts.size() == 2 ? wire::decode_welcome(bytes_of(parts[1])) : std::nullopt;
  if (!body) {
    atomic_counters::count(counters_.malformed_replies);
    return std::nullopt;
  }
  const std::string before = std::exchange(token_, body->resume);
  if (move_to_shard(*body)) {
    return std::nullopt;
  }
  const bool restarted = catalogue_ != nullptr && catalogue_->server().instance != body->instance;
  const bool forgotten = catalogue_ != nullptr && !before.empty() && before != token_;
  return accepted_welcome{std::move(*body), restarted, forgotten};
}

bool handshake::accept(const accepted_welcome& welcome) {
  catalogue_ = std::make_shared<const catalogue>(welcome.body, options_.url);
  credits_.grant(welcome.body.credit_requests, welcome.body.credit_bytes);
  const bool send_again = timer_.welcomed(welcome.body.instance, token_);
  listener_.welcomed(catalogue_);
  return send_again;
}

bool handshake::move_to_shard(const wire::welcome& body) {
  const bool settled = std::exchange(shard_settled_, true) || options_.stays;
  const auto shard_url = settled ? std::nullopt : better_endpoint(body, options_.url);
  if (!shard_url) {
    return false;
  }
  say_goodbye();
  timer_.disconnected();
  try {
    socket_.connect_to(*shard_url);
    options_.url = *shard_url;
    listener_.moved(options_.url);
  } catch (const zmq::error_t&) {  // not reachable from this machine: the first shard serves it too
    socket_.connect_to(options_.url);
  }
  return true;
}

void handshake::handle_error(wire::status code, const request_error& error) {
  if (code != wire::status::too_many_clients || timer_.no_place(std::chrono::steady_clock::now())) {
    listener_.refused(error);
  } else {
    listener_.failed(error.what(), /*final=*/false);
  }
}

void handshake::handle_unsupported_version() {
  listener_.refused(request_error{static_cast<std::uint16_t>(wire::status::unsupported_version),
                                  {"the daemon speaks another major version of the protocol", {}, {}, {}}});
}

void handshake::say_goodbye() {
  zmq::message_t message = bare_message(wire::message_type::goodbye, 0);
  [[maybe_unused]] const bool sent = socket_.send({&message, 1});
}

}  // namespace penstock::link
