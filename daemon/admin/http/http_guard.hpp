#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>

#include "daemon/admin/http/http_message.hpp"

namespace penstock {

/// Whom a request may be addressed to.
struct http_names {
  std::vector<std::string> known{};  ///< beside numeric addresses and localhost
  bool any = false;                  ///< on a Unix socket, which no browser reaches
};

/// Why a request is turned away before anybody looks at what it asks for; nullopt when it is not.
///
/// A page in a browser of this machine can send requests to loopback. That it can't read the answers is the browser's
/// rule, which a name that is made to point here (DNS rebinding) gets around: so a Host that is a name is refused
/// unless it is known. That it can't change anything is ours: what changes something must have `X-Penstock: 1`, a
/// header that a browser lets a page send only after asking first, and that question is refused.
[[nodiscard]] std::optional<http_reply> refusal_of(
    const boost::beast::http::header<true, boost::beast::http::fields>& asked, const http_names& names);

/// The method, path and query of a request that was not refused.
[[nodiscard]] http_request read_request(const boost::beast::http::header<true, boost::beast::http::fields>& asked);

}  // namespace penstock
