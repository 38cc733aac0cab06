// The one place where toml++ itself is compiled: TOML_HEADER_ONLY=0 is set for the whole target.
//
// Its assertions check what the text says, "[.a]" for one, before the code that refuses it. Here they are off, and are
// no promises to the optimizer either, which is what they turn into under NDEBUG.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
