#pragma once

// For kernels of `op = "kernel"` stages that keep state per session. NVRTC finds it as <penstock.cuh>.

namespace penstock {

/// One frame of a batch. The frames of a session in one batch form a list in order: the first (previous == -1)
/// continues from the state that the last batch left in half `half`; the last (next == -1) leaves the state in the
/// other half, so that no frame overwrites what another still reads. At position 0 the state holds nothing, whatever is
/// in memory.
struct frame {
  long long position;  ///< steps of the session before this frame; a step is a row, or with steps = "frames" a frame
  int steps;           ///< of this frame
  int produced;        ///< steps of the output
  int previous;        ///< index in the batch of the session's previous frame; -1: none
  int next;            ///< of its next frame; -1: none
  int place;           ///< of the session in the pool of states
  int half;            ///< which half of the state holds what was
};

/// What the argument "session" is.
struct session {
  const frame* frames;  ///< one for each frame of the batch
  unsigned char* pool;
  unsigned long long stride;  ///< bytes from one half of a state to the next

  /// Whether this frame is the first of its session in the batch.
  __device__ bool first(int index) const { return frames[index].previous < 0; }
  /// Whether the session begins with this frame, so that there is no state yet.
  __device__ bool begins(int index) const { return frames[index].position == 0; }
  /// The state that a session's frames of this batch start from, and where its last one leaves the new one.
  template <class State>
  __device__ const State* before(int index) const {
    return reinterpret_cast<const State*>(half(frames[index].place, frames[index].half));
  }
  template <class State>
  __device__ State* after(int index) const {
    return reinterpret_cast<State*>(half(frames[index].place, 1 - frames[index].half));
  }

 private:
  __device__ unsigned char* half(int place, int number) const { return pool + (2ull * place + number) * stride; }
};

}  // namespace penstock
