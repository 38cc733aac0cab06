#include "daemon/config/sink_text.hpp"

#include <algorithm>
#include <array>

#include "base/quantity.hpp"
#include "base/sigmf.hpp"
#include "daemon/config/live_keys.hpp"
#include "daemon/pipeline/check.hpp"

namespace penstock {
namespace {

constexpr std::array<named_value<sink_type>, 5> sink_type_names{{{"zmq-pub", sink_type::zmq_pub},
                                                                 {"zmq-push", sink_type::zmq_push},
                                                                 {"udp", sink_type::udp},
                                                                 {"file", sink_type::file},
                                                                 {"sigmf", sink_type::sigmf}}};
constexpr std::array<named_value<sink_framing>, 4> sink_framing_names{{{"raw", sink_framing::raw},
                                                                       {"gnuradio-tags", sink_framing::gnuradio_tags},
                                                                       {"penstock", sink_framing::penstock},
                                                                       {"sequence", sink_framing::sequence}}};
constexpr std::array<named_value<full_policy>, 2> full_names{
    {{"drop", full_policy::drop}, {"block", full_policy::block}}};

// Each pipeline takes a subscription, of which a client has 16.
constexpr std::size_t most_feeds = 16;

bool is_zmq(sink_type type) noexcept {
  return type == sink_type::zmq_pub || type == sink_type::zmq_push;
}

bool is_file(sink_type type) noexcept {
  return type == sink_type::file || type == sink_type::sigmf;
}

/// Whether sinks of that type have that key.
bool takes(sink_type type, std::string_view key) {
  if (key == "connect" || key == "bind" || key == "topic" || key == "server_key" || key == "secret_key_file" ||
      key == "authorized_keys_file") {
    return is_zmq(type);
  }
  if (key == "to" || key == "datagram") {
    return type == sink_type::udp;
  }
  if (key == "path") {
    return is_file(type);
  }
  if (key == "framing") {
    return !is_file(type);
  }
  return true;
}

bool takes(sink_type type, sink_framing framing) {
  switch (framing) {
    case sink_framing::raw:
      return true;
    case sink_framing::gnuradio_tags:
    case sink_framing::penstock:
      return is_zmq(type);
    case sink_framing::sequence:
      return type == sink_type::udp;
  }
  return false;
}

void check_addresses(const table_reader& table, const sink_declaration& sink, const settings& read) {
  const address_rules rules{is_zmq(sink.type), sink.encrypts(), "sink",
                            "what goes there is plain text that anybody can read"};
  check_addresses(table, "connect", sink.connect, rules, read);
  check_addresses(table, "bind", sink.bind, rules, read);
  if (sink.type == sink_type::udp) {
    check_addresses(table, "to", {sink.to}, rules, read);
  }
}

void require_keys(const table_reader& table, const sink_declaration& sink) {
  const auto require = [&](const char* key, bool given, const char* what) {
    if (!given) {
      table.refuse_key(
          key, std::string("is missing; a sink of type \"") + std::string(name_of(sink.type)) + "\" needs " + what);
    }
  };
  if (is_zmq(sink.type)) {
    require("bind", !sink.connect.empty() || !sink.bind.empty(), "bind or connect");
  } else if (sink.type == sink_type::udp) {
    require("to", !sink.to.empty(), "the address and port that packets are sent to");
  } else {
    require("path", !sink.path.empty(), "the file's path");
  }
  if (sink.type == sink_type::sigmf && !sink.path.ends_with(".sigmf-meta")) {
    table.refuse_key("path", "a recording's path ends with \".sigmf-meta\"");
  }
}

/// Finds the outputs of `from`.
class feed_finder {
 public:
  feed_finder(const table_reader& table, sink_declaration& sink, const settings& read)
      : table_(table), sink_(sink), read_(read) {}

  void find() {
    if (sink_.from.empty()) {
      refuse("names nothing");
    }
    for (const std::string& each : sink_.from) {
      add(each);
    }
    if (sink_.feeds.size() > most_feeds) {
      refuse("names " + std::to_string(sink_.feeds.size()) + " pipelines; a sink has at most " +
             std::to_string(most_feeds));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const { table_.refuse_key("from", message); }

  [[nodiscard]] const pipeline_declaration* pipeline(std::string_view name) const {
    const auto found = std::find_if(read_.pipelines.begin(), read_.pipelines.end(),
                                    [&](const pipeline_declaration& each) { return each.name == name; });
    return found == read_.pipelines.end() ? nullptr : &*found;
  }
  [[nodiscard]] const source_declaration* source(std::string_view name) const {
    const auto found = std::find_if(read_.sources.begin(), read_.sources.end(),
                                    [&](const source_declaration& each) { return each.name == name; });
    return found == read_.sources.end() ? nullptr : &*found;
  }

  // A pipeline's name may have dots, and so may an output's: the longest name that there is counts.
  void add(const std::string& given) {
    for (std::size_t end = given.size(); end != std::string::npos && end > 0; end = given.rfind('.', end - 1)) {
      const std::string_view name = std::string_view(given).substr(0, end);
      const std::string_view output = end == given.size() ? "" : std::string_view(given).substr(end + 1);
      if (const pipeline_declaration* const named = pipeline(name)) {
        return add(*named, nullptr, output);
      }
      if (const source_declaration* const named = source(name)) {
        return add(*pipeline(named->pipeline), named, output);
      }
    }
    std::vector<std::string_view> names;
    for (const pipeline_declaration& each : read_.pipelines) {
      names.emplace_back(each.name);
    }
    for (const source_declaration& each : read_.sources) {
      names.emplace_back(each.name);
    }
    refuse("'" + given + "' begins with no pipeline and no source" +
           suggestion(std::string_view(given).substr(0, given.find('.')), names));
  }

  void add(const pipeline_declaration& pipeline, const source_declaration* source, std::string_view output) {
    if (!output.empty() &&
        std::find(pipeline.outputs.begin(), pipeline.outputs.end(), output) == pipeline.outputs.end()) {
      const std::vector<std::string_view> names(pipeline.outputs.begin(), pipeline.outputs.end());
      refuse("pipeline '" + pipeline.name + "' has no output '" + std::string(output) + "'" +
             suggestion(output, names));
    }
    sink_feed& feed = feed_of(pipeline, source);
    const std::vector<time_extent> extents = time_extents_of_stages(pipeline);
    for (const std::string& name : pipeline.outputs) {
      const auto same = [&](const sink_output& each) { return each.name == name; };
      if ((output.empty() || name == output) && std::none_of(feed.outputs.begin(), feed.outputs.end(), same)) {
        feed.outputs.push_back(made(pipeline, extents, name));
        feed.gain +=
            static_cast<double>(feed.outputs.back().spec.bytes()) / static_cast<double>(pipeline.input.bytes());
      }
    }
  }

  sink_feed& feed_of(const pipeline_declaration& pipeline, const source_declaration* source) {
    const std::string name = source == nullptr ? "" : source->name;
    for (sink_feed& each : sink_.feeds) {
      if (each.pipeline == pipeline.name && each.source == name) {
        return each;
      }
    }
    sink_feed& made = sink_.feeds.emplace_back();
    made.pipeline = pipeline.name;
    made.source = name;
    made.sample_rate = sink_.sample_rate;
    bool is_first = true;
    for (const source_declaration& each : read_.sources) {
      if (each.pipeline == pipeline.name && (source == nullptr || each.name == name)) {
        made.sources.push_back(each.name);
        if (sink_.sample_rate == 0) {
          made.sample_rate = is_first || made.sample_rate == each.sample_rate ? each.sample_rate : 0;
        }
        is_first = false;
      }
    }
    return made;
  }

  [[nodiscard]] static sink_output made(const pipeline_declaration& pipeline, const std::vector<time_extent>& extents,
                                        const std::string& name) {
    sink_output output;
    output.name = name;
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      for (const operator_output& each : pipeline.stages[stage].outputs()) {
        if (each.name == name) {
          output.spec = each.spec;
          output.steps = extents[stage].steps;
          output.indices = extents[stage].indices;
        }
      }
    }
    const std::int64_t extent = pipeline.frame_steps();
    output.is_in_time = output.steps > 0 && (output.spec.variable || pipeline.input.variable ||
                                             output.spec.shape.front() * output.steps == extent * output.indices);
    if (!output.is_in_time) {
      output.steps = pipeline.input.variable ? 0 : extent;
      output.indices = 1;
    }
    return output;
  }

  const table_reader& table_;
  sink_declaration& sink_;
  const settings& read_;
};

/// A file has one kind of items.
void check_path(const table_reader& table, const sink_declaration& sink) {
  const auto has = [&](const char* mark) { return sink.path.find(mark) != std::string::npos; };
  const bool one_pipeline = std::all_of(sink.feeds.begin(), sink.feeds.end(), [&](const sink_feed& each) {
    return each.pipeline == sink.feeds.front().pipeline;
  });
  const bool one_output = std::all_of(sink.feeds.begin(), sink.feeds.end(), [&](const sink_feed& each) {
    return each.outputs.size() == 1 && each.outputs.front().name == sink.feeds.front().outputs.front().name;
  });
  if (!one_output && !has("{output}")) {
    table.refuse_key("path", "needs \"{output}\" in it, as `from` names several outputs");
  }
  if (!one_pipeline && !has("{pipeline}")) {
    table.refuse_key("path", "needs \"{pipeline}\" in it, as `from` names several pipelines");
  }
  if (sink.type != sink_type::sigmf) {
    return;
  }
  if (!has("{session}")) {
    table.refuse_key("path", "needs \"{session}\" in it: each session has a recording of its own");
  }
  for (const sink_feed& feed : sink.feeds) {
    for (const sink_output& each : feed.outputs) {
      if (sigmf_of_element(name_of(each.spec.type)).empty()) {
        table.refuse_key("from", "output '" + each.name + "' of pipeline '" + feed.pipeline + "' is " +
                                     each.spec.text() + ", and SigMF has no " + std::string(name_of(each.spec.type)));
      }
    }
  }
}

sink_declaration read_sink(const toml::table& contents, configuration_place place, std::size_t index,
                           const settings& read) {
  place.position.line = contents.source().begin.line;
  place.sink = "#" + std::to_string(index + 1);
  if (const auto* name = contents["name"].as_string()) {
    place.sink = name->get();
  }
  table_reader table(contents, place, "");
  sink_declaration sink;
  sink.position = place.position;
  const std::vector<setting<sink_declaration>>& rows = sink_settings();
  for (const setting<sink_declaration>& each : rows) {
    if (each.is_required && !contents.contains(each.key)) {
      table.refuse_key(each.key, "is missing; each sink has a name, a type and what it is fed from");
    }
  }
  read_all(rows, table, sink);
  table.refuse_unknown();
  for (const setting<sink_declaration>& each : rows) {
    if (contents.contains(each.key) && !takes(sink.type, each.key)) {
      table.refuse_key(each.key, "a sink of type \"" + std::string(name_of(sink.type)) + "\" has no such key");
    }
  }
  if (sink.name.empty()) {
    table.refuse_key("name", "is empty");
  }
  if (!contents.contains("on_full") && sink.type != sink_type::zmq_pub && sink.type != sink_type::udp) {
    sink.on_full = full_policy::block;
  }
  if (!takes(sink.type, sink.framing)) {
    table.refuse_key("framing", "a sink of type \"" + std::string(name_of(sink.type)) + "\" has no framing \"" +
                                    std::string(sink_framing_names[static_cast<std::size_t>(sink.framing)].name) +
                                    "\"");
  }
  require_keys(table, sink);
  check_socket_keys(table, sink, "sink");
  check_addresses(table, sink, read);
  feed_finder(table, sink, read).find();
  if (is_file(sink.type)) {
    check_path(table, sink);
  }
  return sink;
}

}  // namespace

std::string_view name_of(sink_type type) noexcept {
  return sink_type_names[static_cast<std::size_t>(type)].name;
}

const std::vector<setting<sink_declaration>>& sink_settings() {
  using declared = sink_declaration;
  static const std::vector<setting<declared>> rows{
      row("name", &declared::name, text_kind{}, "What STATUS and logs call it.", true),
      row("type", &declared::type, named_kind{sink_type_names}, "Where results go.", true),
      row("from", &declared::from, texts_kind{},
          "What it is fed from: `\"PIPELINE.OUTPUT\"`, or `\"PIPELINE\"` for all outputs. "
          "A source's name instead of the pipeline's is for the results of that source alone.",
          true),
      row("sessions", &declared::sessions, texts_kind{},
          "Patterns of sessions' names, of which one must match; all when left out. "
          "`*` stands for any letters. "
          "A session's later epochs, such as `north/1`, go with it."),
      row("bind", &declared::bind, texts_kind{},
          "Where receivers connect to, for ZeroMQ: `tcp://HOST:PORT` or `ipc://PATH`, one or several."),
      row("connect", &declared::connect, texts_kind{}, "Where to connect to, for ZeroMQ."),
      row("server_key", &declared::server_key, left_out_kind{},
          "For ZeroMQ with CURVE: the public key of who it connects to."),
      row("secret_key_file", &declared::secret_key_file, left_out_file_kind{},
          "The sink's own key for CURVE, as `penstock keygen` makes it. "
          "Needs `server_key` to connect, and `authorized_keys_file` to be connected to."),
      row("authorized_keys_file", &declared::authorized_keys_file, left_out_file_kind{},
          "Public keys of those who may connect to it, a key a line. "
          "It is read when the sink begins."),
      row("to", &declared::to, left_out_kind{},
          "The `ADDRESS:PORT` that packets are sent to, for `udp`; it may be a multicast address."),
      row("path", &declared::path, left_out_kind{},
          "The file, relative to the configuration's folder; `.sigmf-meta` for a recording. "
          "`{session}`, `{output}` and `{pipeline}` stand for the result's. "
          "What is there is continued."),
      row("framing", &declared::framing, named_kind{sink_framing_names}, "How messages hold results."),
      row("topic", &declared::topic, left_out_kind{},
          "A first part of each ZeroMQ message, by which a SUB socket chooses. "
          "`{session}`, `{output}` and `{pipeline}` stand for the result's. "
          "Without it there is no such part."),
      row("sample_rate", &declared::sample_rate, rate_kind{},
          "Samples per second of the pipelines' input, for tags and recordings. "
          "The sources' own when left out."),
      row("datagram", &declared::datagram, size_kind{16, 65000},
          "Bytes of results in one UDP packet, at most; it holds whole items."),
      row("queue", &declared::queue, size_kind{4096, std::size_t{1} << 40U}, "Results that may wait for the receiver."),
      row("on_full", &declared::on_full, named_kind{full_names},
          "What happens with results that the receiver does not take: `drop` counts them, `block` pauses the sources "
          "that they come of. "
          "`block` is the default of `zmq-push`, `file` and `sigmf`.")};
  return rows;
}

std::vector<sink_declaration> read_sinks(const toml::node& sinks, const std::string& file, const settings& read) {
  configuration_place place;
  place.position = {file, sinks.source().begin.line};
  place.field = "sink";
  const auto* array = sinks.as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    refuse(place, shown(sinks) + " is given; allowed is [[sink]] tables, in double brackets");
  }
  place.field.clear();
  std::vector<sink_declaration> declared;
  for (std::size_t index = 0; index < array->size(); ++index) {
    sink_declaration next = read_sink(*(*array)[index].as_table(), place, index, read);
    for (const sink_declaration& other : declared) {
      if (other.name == next.name) {
        configuration_place twice = place;
        twice.position = next.position;
        twice.sink = next.name;
        twice.field = "name";
        refuse(twice, "a sink of this name is on line " + std::to_string(other.position.line) + " already");
      }
    }
    declared.push_back(std::move(next));
  }
  return declared;
}

std::string print_sink(const sink_declaration& sink) {
  std::string text = "\n[[sink]]\n";
  for (const setting<sink_declaration>& each : sink_settings()) {
    if (const std::string value = each.print(sink); !value.empty() && takes(sink.type, each.key)) {
      text += std::string(each.key) + " = " + value + "\n";
    }
  }
  return text;
}

std::vector<std::string> doubts_about(const sink_declaration& sink) {
  std::vector<std::string> doubts;
  const auto doubt = [&](const char* field, const std::string& text) {
    configuration_place place;
    place.position = sink.position;
    place.sink = sink.name;
    place.field = field;
    doubts.push_back(place.text() + ": " + text);
  };
  const bool has_unfed =
      std::any_of(sink.feeds.begin(), sink.feeds.end(), [](const sink_feed& each) { return each.sources.empty(); });
  if (sink.on_full == full_policy::block && has_unfed) {
    doubt("on_full",
          "no source feeds one of its pipelines, and a network client is not paused: what does not fit the "
          "queue is dropped");
  }
  const std::size_t outputs = sink.feeds.size() == 1 ? sink.feeds.front().outputs.size() : 2;
  if (outputs > 1 && (sink.type == sink_type::udp || (is_zmq(sink.type) && sink.topic.empty()))) {
    doubt("from", "nothing in its messages tells its outputs apart");
  }
  return doubts;
}

bool same_sink(const sink_declaration& left, const sink_declaration& right) {
  return print_sink(left) == print_sink(right) && left.feeds == right.feeds &&
         left.position.file == right.position.file;
}

}  // namespace penstock
