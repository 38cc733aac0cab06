#pragma once

#include <array>
#include <string_view>

#include "daemon/settings/settings.hpp"

namespace penstock {

/// A value of the configuration and the word that the file has for it. Reader and printer share these tables.
template <typename Value>
struct named_value {
  std::string_view name;
  Value value;
};

inline constexpr std::array<named_value<backend_choice>, 3> backend_names{
    {{"auto", backend_choice::automatic}, {"cuda", backend_choice::cuda}, {"host", backend_choice::host}}};
inline constexpr std::array<named_value<completion_mode>, 3> completion_names{
    {{"callback", completion_mode::callback}, {"poll", completion_mode::poll}, {"auto", completion_mode::automatic}}};
inline constexpr std::array<named_value<stream_priority>, 3> priority_names{
    {{"low", stream_priority::low}, {"normal", stream_priority::normal}, {"high", stream_priority::high}}};
inline constexpr std::array<named_value<overflow_policy>, 2> overflow_names{
    {{"reject", overflow_policy::reject}, {"drop-oldest", overflow_policy::drop_oldest}}};
inline constexpr std::array<std::string_view, 5> log_levels{"trace", "debug", "info", "warn", "error"};
inline constexpr std::array<std::string_view, 9> element_names{"u8",   "i8",  "i16", "i32", "f32",
                                                               "cf32", "cu8", "ci8", "ci16"};

}  // namespace penstock
