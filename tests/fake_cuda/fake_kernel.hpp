#pragma once

#include "kernels/operation.hpp"

namespace penstock::testing {

/// What a kernel of the fake runtime does: it runs a host operation.
struct fake_kernel {
  operation* what = nullptr;
  operation_arguments arguments;
};

/// The address that launches of a fake_kernel carry; every other kernel does nothing.
extern const char fake_kernel_address;

}  // namespace penstock::testing
