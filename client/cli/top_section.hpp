#pragma once

#include <array>
#include <string>
#include <vector>

#include "client/cli/top_layout.hpp"

namespace penstock::cli {

/// One section of the view: what stands over its columns, and every row that it would show.
struct section_lines {
  top_line columns{0};    ///< begins where the section's name ends
  std::size_t items = 0;  ///< shards, streams, pipelines or clients that there are
  std::size_t per_row = 1;
  std::vector<top_line> rows;
};

[[nodiscard]] std::array<section_lines, top_sections> lay_out_sections(const top_figures& figures,
                                                                       const top_view& view);
/// The line over a section of which so many rows are shown: its number and name, how many of all are shown where not
/// all are, and the names of its columns.
[[nodiscard]] top_line section_heading(top_section which, const section_lines& of, int rows, const top_view& view);

}  // namespace penstock::cli
