#include "client/cli/top_screen.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include <curses.h>
#include <langinfo.h>
#include <term.h>
#include <unistd.h>

// term.h makes macros of these plain words.
#undef columns
#undef lines

namespace penstock::cli {
namespace {

struct role_look {
  text_role role;
  chtype attributes;
  short color;  ///< -1: the terminal's own
};

constexpr std::array<role_look, 11> looks{{{text_role::plain, A_NORMAL, -1},
                                           {text_role::strong, A_BOLD, -1},
                                           {text_role::faint, A_DIM, -1},
                                           {text_role::heading, A_BOLD, -1},
                                           {text_role::chosen, A_REVERSE, -1},
                                           {text_role::good, A_NORMAL, COLOR_GREEN},
                                           {text_role::warning, A_BOLD, COLOR_YELLOW},
                                           {text_role::bad, A_BOLD, COLOR_RED},
                                           {text_role::copy_in, A_NORMAL, COLOR_CYAN},
                                           {text_role::compute, A_NORMAL, COLOR_GREEN},
                                           {text_role::copy_out, A_NORMAL, COLOR_MAGENTA}}};

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

bool begin_colors() {
  if (!environment("NO_COLOR").empty() || !has_colors() || start_color() == ERR || use_default_colors() == ERR) {
    return false;
  }
  for (const role_look& each : looks) {
    init_pair(static_cast<short>(static_cast<int>(each.role) + 1), each.color, -1);
  }
  return true;
}

}  // namespace

bool can_show_a_screen() {
  int failed = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &failed) == ERR) {
    return false;
  }
  const char* const place_cursor = tigetstr("cup");
  return place_cursor != nullptr && place_cursor != reinterpret_cast<const char*>(-1);
}

bar_glyphs glyphs_of_terminal() {
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") {
    return bar_glyphs::ascii;
  }
  return environment("TERM") == "linux" ? bar_glyphs::halves : bar_glyphs::eighths;
}

top_screen::top_screen() : screen_(newterm(nullptr, stdout, stdin)) {
  if (screen_ == nullptr) {
    throw std::runtime_error("the terminal can't be used: TERM is \"" + std::string(environment("TERM")) + "\"");
  }
  cbreak();
  noecho();
  keypad(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  colors_ = begin_colors();
}

top_screen::~top_screen() {
  endwin();
  delscreen(static_cast<SCREEN*>(screen_));
}

int top_screen::columns() const {
  return getmaxx(stdscr);
}

int top_screen::rows() const {
  return getmaxy(stdscr);
}

void top_screen::show(const std::vector<top_line>& lines) {
  erase();
  int row = 0;
  for (const top_line& line : lines) {
    move(row++, 0);
    for (const text_piece& piece : line.pieces()) {
      const role_look& look = looks[static_cast<std::size_t>(piece.role)];
      const chtype color = colors_ ? static_cast<chtype>(COLOR_PAIR(static_cast<int>(piece.role) + 1)) : A_NORMAL;
      attrset(static_cast<int>(look.attributes | color));
      addstr(piece.text.c_str());
    }
  }
  attrset(A_NORMAL);
  refresh();
}

top_key top_screen::wait_for_key(std::chrono::milliseconds patience) {
  timeout(static_cast<int>(patience.count()));
  switch (getch()) {
    case 'q':
    case 'Q':
      return top_key::quit;
    case 's':
      return top_key::sort;
    case 'p':
    case ' ':
      return top_key::pause;
    case 'h':
    case '?':
      return top_key::help;
    case '\t':
      return top_key::next;
    case '1':
      return top_key::shards;
    case '2':
      return top_key::streams;
    case '3':
      return top_key::pipelines;
    case '4':
      return top_key::clients;
    case '5':
      return top_key::sources;
    case '6':
      return top_key::sinks;
    case KEY_RESIZE:
      return top_key::resized;
    default:
      return top_key::none;
  }
}

}  // namespace penstock::cli
