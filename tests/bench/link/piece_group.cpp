#include "tests/bench/link/piece_group.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace penstock::bench {
namespace {

constexpr std::size_t page = 4096;

// Each piece begins on a page of its own, and leaves one free behind it.
std::size_t stride_of(piece_shape shape) {
  return (shape.bytes + page - 1) / page * page + page;
}

// The order of pieces is not that of their places: 97 is prime to every power of two.
std::size_t place_of(std::size_t piece, piece_shape shape) {
  return piece * 97 % shape.pieces * stride_of(shape);
}

cudaMemcpyKind kind_of(direction to) {
  return to == direction::in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
}

std::byte value_at(std::size_t piece, int salt) {
  return static_cast<std::byte>((piece * 31 + static_cast<std::size_t>(salt)) % 251);
}

}  // namespace

const char* name_of(piece_way way) {
  switch (way) {
    case piece_way::one_copy:
      return "one copy of as many bytes";
    case piece_way::copy_each:
      return "a copy each";
    case piece_way::batched:
      return "batched copies";
    case piece_way::kernel:
      return "kernel on mapped memory";
    case piece_way::host_and_copy:
      return "memcpy by the host, one copy";
  }
  return "";
}

std::vector<piece_way> ways_for(direction to) {
  std::vector<piece_way> ways{piece_way::one_copy, piece_way::copy_each};
  if (can_copy_together()) {
    ways.push_back(piece_way::batched);
  }
  ways.push_back(piece_way::kernel);
  if (to == direction::in) {
    ways.push_back(piece_way::host_and_copy);
  }
  return ways;
}

piece_group::piece_group(piece_shape shape)
    : shape_(shape),
      whole_bytes_(shape.pieces * shape.bytes),
      arena_(host_memory::sealed, shape.pieces * stride_of(shape)),
      staging_(make_bare_pinned_memory(whole_bytes_)),
      device_(make_bare_device_memory(whole_bytes_)),
      sizes_(shape.pieces, shape.bytes) {
  list_.device = device_.get();
  list_.pieces = static_cast<unsigned>(shape.pieces);
  list_.piece_bytes = static_cast<unsigned>(shape.bytes);
  for (std::size_t piece = 0; piece < shape.pieces; ++piece) {
    list_.host[piece] = arena_.data() + place_of(piece, shape);
    host_places_.push_back(list_.host[piece]);
    device_places_.push_back(device_.get() + piece * shape.bytes);
  }
  const bare_stream on = make_bare_stream();
  for (const direction to : {direction::in, direction::out}) {
    for (const piece_way way : ways_for(to)) {
      check(way, to, on.get());
    }
  }
}

void piece_group::enqueue(piece_way way, direction to, cudaStream_t on) {
  switch (way) {
    case piece_way::one_copy:
      return copy_whole(to, on);
    case piece_way::copy_each:
      return copy_each(to, on);
    case piece_way::batched:
      return copy_batched(to, on);
    case piece_way::kernel:
      return to == direction::in ? launch_gather(on, list_) : launch_scatter(on, list_);
    case piece_way::host_and_copy:
      return gather_on_host(on);
  }
}

void piece_group::copy_whole(direction to, cudaStream_t on) {
  void* const target = to == direction::in ? device_.get() : staging_.get();
  const void* const source = to == direction::in ? staging_.get() : device_.get();
  require(cudaMemcpyAsync(target, source, whole_bytes_, kind_of(to), on), "cudaMemcpyAsync");
}

void piece_group::copy_each(direction to, cudaStream_t on) {
  const std::vector<void*>& targets = to == direction::in ? device_places_ : host_places_;
  const std::vector<void*>& sources = to == direction::in ? host_places_ : device_places_;
  for (std::size_t piece = 0; piece < shape_.pieces; ++piece) {
    require(cudaMemcpyAsync(targets[piece], sources[piece], shape_.bytes, kind_of(to), on), "cudaMemcpyAsync");
  }
}

void piece_group::copy_batched(direction to, cudaStream_t on) {
  const std::vector<void*>& targets = to == direction::in ? device_places_ : host_places_;
  const std::vector<void*>& sources = to == direction::in ? host_places_ : device_places_;
  copy_together(targets.data(), sources.data(), sizes_.data(), shape_.pieces, on);
}

// The copy before may still read the staging memory: what is written there are the same bytes again.
void piece_group::gather_on_host(cudaStream_t on) {
  for (std::size_t piece = 0; piece < shape_.pieces; ++piece) {
    std::memcpy(staging_.get() + piece * shape_.bytes, list_.host[piece], shape_.bytes);
  }
  copy_whole(direction::in, on);
}

// Every piece its own byte, wherever it lies in one piece or in many.
void piece_group::fill(int salt) {
  for (std::size_t piece = 0; piece < shape_.pieces; ++piece) {
    std::memset(list_.host[piece], static_cast<int>(value_at(piece, salt)), shape_.bytes);
    std::memset(staging_.get() + piece * shape_.bytes, static_cast<int>(value_at(piece, salt)), shape_.bytes);
  }
}

void piece_group::check(piece_way way, direction to, cudaStream_t on) {
  constexpr int old_salt = 5;
  const int salt = 40 + static_cast<int>(way);
  fill(salt);
  if (to == direction::out) {
    copy_whole(direction::in, on);
    require(cudaStreamSynchronize(on), "cudaStreamSynchronize");
    fill(old_salt);
  }
  enqueue(way, to, on);
  require(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  if (to == direction::in) {
    fill(old_salt);
    copy_whole(direction::out, on);
    require(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  }
  const bool whole = to == direction::in || way == piece_way::one_copy;
  for (std::size_t piece = 0; piece < shape_.pieces; ++piece) {
    const std::byte* const begin = whole ? staging_.get() + piece * shape_.bytes : list_.host[piece];
    if (!std::all_of(begin, begin + shape_.bytes, [&](std::byte each) { return each == value_at(piece, salt); })) {
      throw std::runtime_error(std::string("pieces did not arrive: ") + name_of(way));
    }
  }
}

}  // namespace penstock::bench
