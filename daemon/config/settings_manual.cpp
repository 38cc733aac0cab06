// What the table of settings says of itself: for penstock.toml and for penstock.toml(5).
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/config/pipeline_text.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/config/settings_table.hpp"
#include "daemon/config/sink_text.hpp"
#include "daemon/config/source_text.hpp"

namespace penstock {
namespace {

constexpr std::size_t page_width = 116;

std::vector<std::string> sentences_of(std::string_view help) {
  std::vector<std::string> sentences;
  while (!help.empty()) {
    const std::size_t end = std::min(help.find(". "), help.size() - 1);
    sentences.emplace_back(help.substr(0, end + 1));
    help.remove_prefix(std::min(end + 2, help.size()));
  }
  return sentences;
}

/// Lines of at most so many characters, as far as words allow, each behind `prefix`.
std::string wrapped(const std::string& text, const std::string& prefix) {
  std::string lines;
  std::string line;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string word(rest.substr(0, std::min(rest.find(' '), rest.size())));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    if (!line.empty() && prefix.size() + line.size() + 1 + word.size() > page_width) {
      lines += prefix + std::exchange(line, "") + "\n";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return lines + prefix + line + "\n";
}

std::string without_backticks(std::string text) {
  std::erase(text, '`');
  return text;
}

/// `key = value` lines with the first sentence of each help behind them.
std::string toml_section(const settings_section& section) {
  const settings defaults;
  std::vector<std::string> lines;
  std::size_t widest = 0;
  for (const setting<settings>& row : section.rows) {
    const std::string value = row.print(defaults);
    lines.push_back((value.empty() ? "# " : "") + std::string(row.key) + " = " +
                    (value.empty() ? std::string(row.example) : value));
    widest = std::max(widest, lines.back().size());
  }
  std::string text;
  for (const std::string& sentence : sentences_of(section.help)) {
    text += wrapped(without_backticks(sentence), "# ");
  }
  text += "[" + std::string(section.name) + "]\n";
  for (std::size_t row = 0; row < lines.size(); ++row) {
    lines[row].resize(widest, ' ');
    std::string help = without_backticks(sentences_of(section.rows[row].help).front());
    help.pop_back();
    if (section.rows[row].type.starts_with("one of")) {
      help += " (" + section.rows[row].type + ")";
    }
    text += lines[row] + "  # " + help + "\n";
  }
  return text;
}

/// A sentence as mdoc: what stands in backticks is a literal, on a line of its own with the punctuation behind it.
std::string mdoc(const std::string& sentence) {
  std::string text;
  std::string_view rest = sentence;
  while (!rest.empty()) {
    const std::size_t begin = std::min(rest.find('`'), rest.size());
    std::string plain(rest.substr(0, begin));
    plain.erase(plain.find_last_not_of(' ') + 1);
    if (!plain.empty()) {
      text += wrapped(plain, "");
    }
    rest.remove_prefix(std::min(begin + 1, rest.size()));
    if (begin == sentence.size() || rest.empty()) {
      break;
    }
    const std::size_t end = rest.find('`');
    std::string literal(rest.substr(0, end));
    for (std::size_t quote = literal.find('"'); quote != literal.npos; quote = literal.find('"', quote)) {
      literal.replace(quote, 1, "\\(dq");
    }
    rest.remove_prefix(end + 1);
    text += ".Ql " + literal;
    while (!rest.empty() && std::string_view(".,;:").find(rest.front()) != std::string_view::npos) {
      text += std::string(" ") + rest.front();
      rest.remove_prefix(1);
    }
    text += "\n";
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
  return text;
}

std::string mdoc_all(std::string_view help) {
  std::string text;
  for (const std::string& sentence : sentences_of(help)) {
    text += mdoc(sentence);
  }
  return text;
}

template <typename Owner>
std::string mdoc_rows(const std::vector<setting<Owner>>& rows, bool names_effect) {
  std::string text = ".Bl -tag -width Ds\n";
  for (const setting<Owner>& row : rows) {
    const std::string value = row.print(Owner{});
    std::string facts = row.type;
    facts.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(facts.front())));
    facts += row.is_required ? "; required" : value.empty() ? "" : "; default " + value;
    facts += !names_effect ? "" : row.effect == change::by_reload ? "; a reload changes it" : "";
    text += ".It Ic " + std::string(row.key) + "\n" + mdoc_all(row.help) + wrapped(facts + ".", "");
  }
  return text + ".El\n";
}

std::string print_man() {
  std::string text;
  for (const settings_section& section : settings_table()) {
    text += ".Ss [" + std::string(section.name) + "]\n" + mdoc_all(section.help) + mdoc_rows(section.rows, true);
  }
  text +=
      ".Ss [[pipeline]]\n" +
      mdoc_all(
          "A pipeline takes frames, tensors of one shape, runs stages on them, and gives results back, one for each "
          "frame. A reload can add, change and remove pipelines.") +
      mdoc_rows(pipeline_settings(), false);
  text += ".Ss [[pipeline.stage]]\n" +
          mdoc_all("A stage runs one operator on the outputs of other stages or on the input.") +
          mdoc_rows(stage_settings(), false);
  text += ".Ss [[source]]\n" +
          mdoc_all(
              "A source feeds a pipeline with samples that arrive by themselves: from a network, a file, standard "
              "input. "
              "Each key is for the types that have it. "
              "A reload starts, stops and changes sources.") +
          mdoc_rows(source_settings(), false);
  text += ".Ss [[sink]]\n" +
          mdoc_all(
              "A sink hands results on as they come, to a network or a file. "
              "Each key is for the types that have it. "
              "A reload starts, stops and changes sinks.") +
          mdoc_rows(sink_settings(), false);
  return text;
}

}  // namespace

std::string print_manual(manual_format format) {
  if (format == manual_format::man) {
    return print_man();
  }
  std::string text;
  for (const settings_section& section : settings_table()) {
    text += (text.empty() ? "" : "\n") + toml_section(section);
  }
  return text;
}

}  // namespace penstock
