#pragma once

namespace penstock::bench {

/// The commit that this program was built from, as "4378e9b1c2"; with "-dirty" behind it where something that is built
/// was not as in that commit; "unknown" where the tree was no checkout. Each build writes its source
/// (cmake/commit.cmake).
[[nodiscard]] const char* built_from() noexcept;

}  // namespace penstock::bench
