#include "daemon/config/source_text.hpp"

#include <algorithm>
#include <array>

#include "base/quantity.hpp"
#include "daemon/config/live_keys.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::array<named_value<source_type>, 6> type_names{{{"zmq-sub", source_type::zmq_sub},
                                                              {"zmq-pull", source_type::zmq_pull},
                                                              {"udp", source_type::udp},
                                                              {"tcp", source_type::tcp},
                                                              {"file", source_type::file},
                                                              {"stdin", source_type::standard_input}}};
constexpr std::array<named_value<source_framing>, 8> framing_names{{{"raw", source_framing::raw},
                                                                    {"gnuradio-tags", source_framing::gnuradio_tags},
                                                                    {"penstock", source_framing::penstock},
                                                                    {"sequence", source_framing::sequence},
                                                                    {"gnuradio-seq", source_framing::gnuradio_seq},
                                                                    {"vita49", source_framing::vita49},
                                                                    {"difi", source_framing::difi},
                                                                    {"rtl_tcp", source_framing::rtl_tcp}}};
constexpr std::array<named_value<gap_policy>, 4> gap_names{{{"fill", gap_policy::fill},
                                                            {"nan", gap_policy::nan},
                                                            {"new-epoch", gap_policy::new_epoch},
                                                            {"splice", gap_policy::splice}}};
constexpr std::array<named_value<gap_policy>, 2> beyond_names{
    {{"new-epoch", gap_policy::new_epoch}, {"splice", gap_policy::splice}}};
constexpr std::array<named_value<overrun_policy>, 3> overrun_names{{{"block", overrun_policy::block},
                                                                    {"drop-oldest", overrun_policy::drop_oldest},
                                                                    {"drop-newest", overrun_policy::drop_newest}}};

struct element_kind {
  [[nodiscard]] std::string summary() const { return word_kind{element_names}.summary(); }
  void read(table_reader& table, std::string_view key, element_type& value) const {
    std::string given;
    word_kind{element_names}.read(table, key, given);
    if (!given.empty()) {
      value = element_type_of(given).value();
    }
  }
  [[nodiscard]] std::string print(element_type value) const { return toml_string(name_of(value)); }
};

/// "1x", "2.5x", "free".
struct pace_kind {
  [[nodiscard]] std::string summary() const { return "\"1x\", \"10x\", \"free\""; }
  void read(table_reader& table, std::string_view key, source_pace& value) const {
    const toml::node* node = table.find(key);
    if (node == nullptr) {
      return;
    }
    const auto* text = node->as_string();
    const std::string given = text == nullptr ? "" : text->get();
    if (given == "free") {
      value.times = 0;
      return;
    }
    constexpr double most = 1e6;
    const quantity<double> times =
        given.ends_with('x') ? parse_positive(given.substr(0, given.size() - 1)) : quantity<double>{};
    if (!times || *times > most) {
      table.refuse_value(key, *node, "\"free\", or how many times as fast as sample_rate: \"1x\", \"0.5x\", \"10x\"");
    }
    value.times = *times;
  }
  [[nodiscard]] std::string print(const source_pace& value) const {
    if (value.times == 0) {
      return toml_string("free");
    }
    std::string number = toml_real(value.times);
    if (number.ends_with(".0")) {
      number.resize(number.size() - 2);
    }
    return toml_string(number + "x");
  }
};

/// A table of its own rows.
template <typename Owner>
struct rows_kind {
  const std::vector<setting<Owner>>& rows;
  const char* allowed;

  [[nodiscard]] std::string summary() const { return "table"; }
  void read(table_reader& source, std::string_view key, Owner& value) const {
    const toml::node* node = source.find(key);
    if (node == nullptr) {
      return;
    }
    if (!node->is_table()) {
      source.refuse_value(key, *node, allowed);
    }
    table_reader table = source.nested(key, *node->as_table());
    read_all(rows, table, value);
    table.refuse_unknown();
  }
  [[nodiscard]] std::string print(const Owner& value) const {
    std::string text;
    for (const setting<Owner>& each : rows) {
      text += (text.empty() ? "{ " : ", ") + std::string(each.key) + " = " + each.print(value);
    }
    return text + " }";
  }
};

const std::vector<setting<gap_settings>>& gap_rows() {
  static const std::vector<setting<gap_settings>> rows{
      row("policy", &gap_settings::policy, named_kind{gap_names}, ""),
      row("max_fill", &gap_settings::max_fill, duration_kind{nanoseconds(0), hours(1)}, ""),
      row("beyond", &gap_settings::beyond, named_kind{beyond_names}, ""),
      row("discard", &gap_settings::discard, flag_kind{}, "")};
  return rows;
}

const std::vector<setting<reorder_settings>>& reorder_rows() {
  static const std::vector<setting<reorder_settings>> rows{
      row("window", &reorder_settings::window, integer_kind{0, 1 << 16}, ""),
      row("max_wait", &reorder_settings::max_wait, duration_kind{nanoseconds(0), seconds(10)}, "")};
  return rows;
}

bool is_zmq(source_type type) noexcept {
  return type == source_type::zmq_sub || type == source_type::zmq_pull;
}

/// Whether sources of that type have that key.
bool takes(source_type type, std::string_view key) {
  const bool network = type != source_type::file && type != source_type::standard_input;
  if (key == "connect") {
    return is_zmq(type) || type == source_type::tcp;
  }
  if (key == "bind" || key == "server_key" || key == "secret_key_file" || key == "authorized_keys_file") {
    return is_zmq(type);
  }
  if (key == "topics") {
    return type == source_type::zmq_sub;
  }
  if (key == "listen" || key == "interface" || key == "kernel_times" || key == "reorder" || key == "socket_buffer") {
    return type == source_type::udp;
  }
  if (key == "path") {
    return type == source_type::file;
  }
  if (key == "pace") {
    return !network;
  }
  if (key == "framing") {
    return network;
  }
  if (key == "max_streams") {
    return is_zmq(type) || type == source_type::udp;
  }
  return true;
}

bool takes(source_type type, source_framing framing) {
  switch (framing) {
    case source_framing::raw:
      return type != source_type::tcp;
    case source_framing::gnuradio_tags:
    case source_framing::penstock:
      return is_zmq(type);
    case source_framing::sequence:
    case source_framing::gnuradio_seq:
    case source_framing::vita49:
    case source_framing::difi:
      return type == source_type::udp;
    case source_framing::rtl_tcp:
      return type == source_type::tcp;
  }
  return false;
}

void check_addresses(const table_reader& table, const source_declaration& source, const settings& read) {
  const address_rules rules{is_zmq(source.type), source.encrypts(), "source",
                            "what comes from there is plain text that anybody can send or change"};
  check_addresses(table, "connect", source.connect, rules, read);
  check_addresses(table, "bind", source.bind, rules, read);
  if (source.type == source_type::udp) {
    check_addresses(table, "listen", {source.listen}, rules, read);
  }
}

void require_keys(const table_reader& table, const source_declaration& source) {
  const auto require = [&](const char* key, bool given, const char* what) {
    if (!given) {
      table.refuse_key(
          key, std::string("is missing; a source of type \"") + std::string(name_of(source.type)) + "\" needs " + what);
    }
  };
  switch (source.type) {
    case source_type::zmq_sub:
    case source_type::zmq_pull:
      require("connect", !source.connect.empty() || !source.bind.empty(), "connect or bind");
      break;
    case source_type::udp:
      require("listen", !source.listen.empty(), "the address and port that packets are sent to");
      break;
    case source_type::tcp:
      require("connect", !source.connect.empty(), "the address and port of its server");
      if (source.connect.size() > 1) {
        table.refuse_key("connect", "a source of type \"tcp\" has one server");
      }
      break;
    case source_type::file:
      require("path", !source.path.empty(), "the file's path");
      break;
    case source_type::standard_input:
      break;
  }
}

void check_session(const table_reader& table, const source_declaration& source) {
  constexpr std::size_t longest = 48;  // room for an epoch behind it
  const auto is_control = [](char letter) { return static_cast<unsigned char>(letter) < 0x20U || letter == '\x7F'; };
  if (source.session.empty() || source.session.size() > longest ||
      std::any_of(source.session.begin(), source.session.end(), is_control)) {
    table.refuse_key("session", "a session's name has 1 to " + std::to_string(longest) +
                                    " bytes, and no control characters; \"{topic}\" stands for the stream's name");
  }
}

/// The samples of a request, and the pipeline that takes it.
void fit_to_pipeline(const table_reader& table, source_declaration& source, const settings& read, bool has_dtype) {
  const auto found = std::find_if(read.pipelines.begin(), read.pipelines.end(),
                                  [&](const pipeline_declaration& each) { return each.name == source.pipeline; });
  if (found == read.pipelines.end()) {
    std::vector<std::string_view> names;
    for (const pipeline_declaration& each : read.pipelines) {
      names.emplace_back(each.name);
    }
    table.refuse_key("pipeline", "there is no pipeline '" + source.pipeline + "'" + suggestion(source.pipeline, names));
  }
  if (found->inputs.size() > 1) {
    table.refuse_key("pipeline", "'" + found->name + "' has several inputs, and a source feeds one");
  }
  if (found->time_axis != 0) {
    table.refuse_key("pipeline", "'" + found->name + "' takes " + found->input.text() + " with time along axis " +
                                     std::to_string(found->time_axis) +
                                     ", and a source gives sample after sample: its input needs time first, as in "
                                     "[samples, channels]; a stage 'transpose' turns it");
  }
  source.input = found->input;
  if (has_dtype && source.dtype != source.input.type) {
    table.refuse_key("dtype", "\"" + std::string(name_of(source.dtype)) + "\" is given; pipeline '" + source.pipeline +
                                  "' takes " + source.input.text() + ", and a source does not convert");
  }
  source.dtype = source.input.type;
  if (source.gap.policy == gap_policy::nan && !is_floating(source.dtype) && source.dtype != element_type::cf32) {
    table.refuse_key("gap", "policy = \"nan\" needs floating samples; pipeline '" + source.pipeline + "' takes " +
                                source.input.text());
  }
  const std::int64_t extent = source.input.shape.front();
  source.sample_bytes = source.input.bytes() / static_cast<std::size_t>(extent);
  source.block = source.block == 0 ? extent : source.block;
  if (source.input.variable ? source.block > extent : source.block % extent != 0) {
    table.refuse_key("block", std::to_string(source.block) + " is given; pipeline '" + source.pipeline + "' takes " +
                                  (source.input.variable ? "at most " + std::to_string(extent) + " samples"
                                                         : "multiples of " + std::to_string(extent) + " samples"));
  }
  const std::size_t bytes = source.sample_bytes * static_cast<std::size_t>(source.block);
  const std::size_t most = std::min(read.clients.credit_bytes, read.clients.max_request_bytes - wire::part_bytes(1));
  if (bytes > most) {
    table.refuse_key("block", std::to_string(source.block) + " samples are " + print_size(bytes) +
                                  ", more than clients.max_request_bytes and clients.credit_bytes allow");
  }
  if (!source.input.variable && source.block / extent > found->batch.max_frames) {
    table.refuse_key("block", std::to_string(source.block) + " samples are " + std::to_string(source.block / extent) +
                                  " frames; a batch of pipeline '" + source.pipeline + "' takes " +
                                  std::to_string(found->batch.max_frames));
  }
  constexpr std::size_t least_blocks = 4;
  if (source.queue / bytes < least_blocks) {
    table.refuse_key("queue", print_size(source.queue) + " is less than " + std::to_string(least_blocks) +
                                  " blocks of " + print_size(bytes));
  }
}

/// A stream that gets no session would hold up the others.
void check_streams(const table_reader& table, source_declaration& source, std::uint32_t most_sessions, bool is_given) {
  if (!takes(source.type, "max_streams") || source.session.find("{topic}") == std::string::npos) {
    return;
  }
  if (is_given && source.max_streams > most_sessions) {
    table.refuse_key("max_streams", std::to_string(source.max_streams) +
                                        " streams are as many sessions; a client has " + std::to_string(most_sessions) +
                                        " at most (sessions.max_per_client)");
  }
  source.max_streams = std::min(source.max_streams, most_sessions);
}

source_declaration read_source(const toml::table& contents, configuration_place place, std::size_t index,
                               const settings& read) {
  place.position.line = contents.source().begin.line;
  place.source = "#" + std::to_string(index + 1);
  if (const auto* name = contents["name"].as_string()) {
    place.source = name->get();
  }
  table_reader table(contents, place, "");
  source_declaration source;
  source.position = place.position;
  const std::vector<setting<source_declaration>>& rows = source_settings();
  for (const setting<source_declaration>& each : rows) {
    if (each.is_required && !contents.contains(each.key)) {
      table.refuse_key(each.key, "is missing; each source has a name, a type and a pipeline");
    }
  }
  read_all(rows, table, source);
  table.refuse_unknown();
  for (const setting<source_declaration>& each : rows) {
    if (contents.contains(each.key) && !takes(source.type, each.key)) {
      table.refuse_key(each.key, "a source of type \"" + std::string(name_of(source.type)) + "\" has no such key");
    }
  }
  if (source.name.empty()) {
    table.refuse_key("name", "is empty");
  }
  if (!contents.contains("overrun") && !source.is_live()) {
    source.overrun = overrun_policy::block;
  }
  if (!contents.contains("pace") && source.type == source_type::standard_input) {
    source.pace.times = 0;  // who writes has a pace
  }
  if (!contents.contains("framing") && source.type == source_type::tcp) {
    source.framing = source_framing::rtl_tcp;
  }
  if (!takes(source.type, source.framing)) {
    table.refuse_key("framing", "a source of type \"" + std::string(name_of(source.type)) + "\" has no framing \"" +
                                    std::string(framing_names[static_cast<std::size_t>(source.framing)].name) + "\"");
  }
  require_keys(table, source);
  check_socket_keys(table, source, "source");
  check_session(table, source);
  check_streams(table, source, read.sessions.max_per_client, contents.contains("max_streams"));
  check_addresses(table, source, read);
  fit_to_pipeline(table, source, read, contents.contains("dtype"));
  return source;
}

}  // namespace

std::string_view name_of(source_type type) noexcept {
  return type_names[static_cast<std::size_t>(type)].name;
}

const std::vector<setting<source_declaration>>& source_settings() {
  using declared = source_declaration;
  static const std::vector<setting<declared>> rows{
      row("name", &declared::name, text_kind{}, "What STATUS, logs and sinks call it.", true),
      row("type", &declared::type, named_kind{type_names}, "Where its samples come from.", true),
      row("connect", &declared::connect, texts_kind{},
          "Where to connect: `tcp://HOST:PORT` or `ipc://PATH`, one or several, for ZeroMQ; `HOST:PORT` for `tcp`."),
      row("bind", &declared::bind, texts_kind{}, "Where senders connect to, for ZeroMQ."),
      row("listen", &declared::listen, left_out_kind{},
          "The `ADDRESS:PORT` that packets are sent to, for `udp`. "
          "A multicast address is joined."),
      row("path", &declared::path, left_out_kind{},
          "The file, relative to the configuration's folder: `.sigmf-meta`, `.npy`, WAV, RF64, FLAC or raw samples."),
      row("topics", &declared::topics, texts_kind{},
          "With what the topics of `zmq-sub` begin that it asks for; all when left out."),
      row("interface", &declared::interface, left_out_kind{},
          "The network interface on which a multicast address is joined; the kernel's choice when left out."),
      row("kernel_times", &declared::kernel_times, flag_kind{},
          "Packets that don't say their time have the one at which the kernel took them, and not the one at which the "
          "source did. "
          "Costs up to a tenth of the rate that `udp` can take."),
      row("server_key", &declared::server_key, left_out_kind{},
          "For ZeroMQ with CURVE: the public key of who it connects to."),
      row("secret_key_file", &declared::secret_key_file, left_out_file_kind{},
          "The source's own key for CURVE, as `penstock keygen` makes it. "
          "Needs `server_key` to connect, and `authorized_keys_file` to be connected to."),
      row("authorized_keys_file", &declared::authorized_keys_file, left_out_file_kind{},
          "Public keys of those who may connect to it, a key a line. "
          "It is read when the source begins."),
      row("framing", &declared::framing, named_kind{framing_names}, "How messages hold samples."),
      row("dtype", &declared::dtype, element_kind{},
          "The type of a sample, which must be that of the pipeline's input. "
          "That one when left out."),
      row("sample_rate", &declared::sample_rate, rate_kind{},
          "Samples per second. "
          "Files that say it need none."),
      row("pipeline", &declared::pipeline, text_kind{}, "The pipeline that takes the samples.", true),
      row("session", &declared::session, text_kind{},
          "The name of its sessions. "
          "`\"{topic}\"` stands for the stream's name, so that each topic has a session; without it all streams are "
          "one. "
          "A new epoch opens a session with `/1`, `/2` behind its name."),
      row("block", &declared::block, integer_kind{0, std::int64_t{1} << 40},
          "Samples of a request; 0 for one frame of the pipeline."),
      row("gap", &declared::gap,
          rows_kind<gap_settings>{gap_rows(), "a table such as { policy = \"fill\", max_fill = \"50ms\" }"},
          "What becomes of missing samples, as a table. "
          "`policy` is `fill` (zeros, counted in each result), `nan` (the same with NaN, for floating samples), "
          "`new-epoch` (a fresh session) or `splice` (only "
          "counted). "
          "Gaps longer than `max_fill` are treated as `beyond` says. "
          "With `discard = true` results with filled samples are not handed on to subscribers and sinks."),
      row("overrun", &declared::overrun, named_kind{overrun_names},
          "What happens while the pipeline takes less than comes in. "
          "`block` does not read on, and is the default of files. "
          "What is dropped becomes a gap."),
      row("queue", &declared::queue, size_kind{1, std::size_t{1} << 40U}, "Samples that may wait for the pipeline."),
      row("stall", &declared::stall, duration_kind{nanoseconds(0), hours(24)},
          "Without data for so long it counts as stalled; `\"0ns\"` for never."),
      row("pace", &declared::pace, pace_kind{},
          "How fast a file is read: `\"1x\"` is at its sample rate, `\"free\"` as fast as the pipeline takes it."),
      row("reorder", &declared::reorder,
          rows_kind<reorder_settings>{reorder_rows(), "a table such as { window = 64, max_wait = \"2ms\" }"},
          "Packets that come out of order are put in order again: at most `window` of them wait, for `max_wait`."),
      row("socket_buffer", &declared::socket_buffer, size_kind{4096, std::size_t{1} << 32U},
          "The socket's buffer for what comes in."),
      row("max_streams", &declared::max_streams, integer_kind{1, 1 << 12},
          "Streams, each with a session, that it may have; samples of others are dropped.")};
  return rows;
}

std::vector<source_declaration> read_sources(const toml::node& sources, const std::string& file, const settings& read) {
  configuration_place place{{file, sources.source().begin.line}, "", "", "source"};
  const auto* array = sources.as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    refuse(place, shown(sources) + " is given; allowed is [[source]] tables, in double brackets");
  }
  place.field.clear();
  std::vector<source_declaration> declared;
  for (std::size_t index = 0; index < array->size(); ++index) {
    source_declaration next = read_source(*(*array)[index].as_table(), place, index, read);
    for (const source_declaration& other : declared) {
      if (other.name == next.name) {
        configuration_place twice = place;
        twice.position = next.position;
        twice.source = next.name;
        twice.field = "name";
        refuse(twice, "a source of this name is on line " + std::to_string(other.position.line) + " already");
      }
    }
    declared.push_back(std::move(next));
  }
  return declared;
}

std::string print_source(const source_declaration& source) {
  std::string text = "\n[[source]]\n";
  for (const setting<source_declaration>& each : source_settings()) {
    if (const std::string value = each.print(source); !value.empty() && takes(source.type, each.key)) {
      text += std::string(each.key) + " = " + value + "\n";
    }
  }
  return text;
}

std::vector<std::string> doubts_about(const source_declaration& source,
                                      const std::vector<pipeline_declaration>& pipelines) {
  std::vector<std::string> doubts;
  const auto doubt = [&](const char* field, const std::string& text) {
    configuration_place place;
    place.position = source.position;
    place.source = source.name;
    place.field = field;
    doubts.push_back(place.text() + ": " + text);
  };
  if (source.gap.policy == gap_policy::splice || source.gap.beyond == gap_policy::splice) {
    std::string stages;
    for (const pipeline_declaration& each : pipelines) {
      for (const stage_declaration& stage : each.stages) {
        const bool keeps_state = each.name == source.pipeline && stage.session.has_value();
        stages += keeps_state ? (stages.empty() ? "'" : ", '") + stage.name + "'" : "";
      }
    }
    doubt("gap", "spliced samples look like those of one signal: only lost_before in a result tells of the gap" +
                     (stages.empty() ? "" : ", and state is carried across it (" + stages + ")"));
  }
  if (fills(source.gap.policy) && source.sample_rate == 0 && source.is_live()) {
    doubt("sample_rate", "without it gap.max_fill is no time: gaps of up to 16 blocks are filled");
  }
  if (!source.is_live() && source.overrun != overrun_policy::block) {
    doubt("overrun", "samples of a file are dropped where the pipeline takes less than its pace");
  }
  return doubts;
}

bool same_source(const source_declaration& left, const source_declaration& right) {
  return print_source(left) == print_source(right) && left.input == right.input &&
         left.position.file == right.position.file;
}

}  // namespace penstock
