/* Operators of your own for penstockd, in a shared library: the interface of `op = "plugin"` stages.
 *
 * A plug-in is a shared library with one C function, penstock_plugin_v1, which lists its operators. Plain C11 or C++11
 * and later; no exception and no C++ type goes through this interface. The daemon opens the library when it reads the
 * configuration and never unloads it: static objects and texts of the library live as long as the process.
 *
 * The life of an operator:
 *   infer   what a stage makes of its inputs; called often, also where there is no device
 *   make    once for each device of a running stage, before the daemon is ready: allocates and prepares everything
 *   run     once for each batch; never allocates, locks, waits or prints
 *   drop    the end of what make made
 *
 * A batch holds `frames` frames, one after the other without gaps, row-major, in each input and each output. Where
 * frames differ in length ("max N"), each frame of the batch has room for `leading` rows. The frames of a batch are of
 * any clients: the result of one must not depend on the others, but for frames of the same session.
 *
 * Structs grow only at their end; `size` says how much of one the other side knows. */
#ifndef PENSTOCK_PLUGIN_H
#define PENSTOCK_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_PLUGIN_ABI 1u
#define PS_MOST_INPUTS 8u
#define PS_MOST_OUTPUTS 8u
#define PS_MOST_EXTENTS 8u

#define PS_EXPORT __attribute__((visibility("default")))
#if defined(__CUDACC__)
#define PS_HOST_DEVICE __host__ __device__
#else
#define PS_HOST_DEVICE
#endif

/* Kinds of elements: DLPack's type codes. With `bits`: f32 is PS_FLOAT of 32; cf32, a pair of f32, PS_COMPLEX of 64.
 * Integer IQ (cu8, ci8, ci16) comes as integers with one more extent, of 2: I, then Q. */
enum { PS_INT = 0, PS_UINT = 1, PS_FLOAT = 2, PS_BFLOAT = 4, PS_COMPLEX = 5, PS_BOOL = 6 };

/* The shape and element type of one frame. */
typedef struct ps_spec {
  uint8_t code;                    /* PS_INT … PS_BOOL */
  uint8_t bits;                    /* of an element, both parts of a complex one */
  uint8_t rank;                    /* number of extents, from 1 */
  uint8_t variable;                /* 1: extent[0] is a maximum, frames are of any length up to it */
  int64_t extent[PS_MOST_EXTENTS]; /* in elements, outermost first */
  const char* name; /* of one of several outputs: A-Z a-z 0-9 _ -, static; NULL for a sole output and for inputs */
} ps_spec;

/* What a call refuses, for the user. */
typedef struct ps_error {
  uint32_t size;
  char field[64]; /* the key of `values` that is wrong; "from" for the inputs; "" for the stage as a whole */
  char text[512]; /* such as "must be 1 or more, not 0" */
} ps_error;

enum { PS_NONE = 0, PS_FLAG, PS_INTEGER, PS_NUMBER, PS_TEXT, PS_NUMBERS, PS_TEXTS };

/* The stage's `values`, for as long as the call lasts. Arrays of numbers may come from .npy files. */
typedef struct ps_params {
  uint32_t size;
  uint32_t count;
  /* The name of a value, 0 … count - 1, in alphabetical order; NULL beyond. */
  const char* (*key)(const struct ps_params*, uint32_t index);
  /* PS_NONE where there is no such value. */
  int32_t (*kind)(const struct ps_params*, const char* key);
  /* 1 and the number where it is PS_NUMBER or PS_INTEGER, else 0. */
  int32_t (*number)(const struct ps_params*, const char* key, double* number);
  /* 1 and the number where it is PS_INTEGER or PS_FLAG (0 or 1), else 0. */
  int32_t (*integer)(const struct ps_params*, const char* key, int64_t* number);
  /* The text of PS_TEXT (index 0), or one of PS_TEXTS; NULL where there is none. */
  const char* (*text)(const struct ps_params*, const char* key, uint32_t index);
  /* The numbers of PS_NUMBERS and how many; NULL where there are none. */
  const double* (*numbers)(const struct ps_params*, const char* key, uint64_t* count);
} ps_params;

enum {
  /* A run reads its inputs once and writes its outputs once, in order, and never reads them again: on a GPU they may
   * then lie in the host's memory. */
  PS_SINGLE_PASS = 1,
  /* The first output may be the first input: a run reads an element before it writes the one in its place. */
  PS_OVERWRITES = 2,
  /* A run only enqueues work that a CUDA graph can hold. */
  PS_CAPTURABLE = 4,
  /* A step of a session is a whole frame, not a row (an index of the first extent). Only with state. */
  PS_WHOLE_FRAMES = 8,
  /* y, state' = step(x, state): a run gets at most one frame of a session. `in` ends with the sessions' states, one for
   * each frame, state_bytes each, zero at a session's first frame; `out` ends with room for their new ones, all of
   * which it writes. ps_run.session is empty. Steps are whole frames. Only with state. */
  PS_WAVES = 16,
  /* On a GPU, a run puts kernels into the queue by `add` and does nothing else with the stream, which is then NULL.
   * Saves a launch for each batch. */
  PS_QUEUES = 32
};

typedef struct ps_needs {
  uint32_t size;
  uint32_t flags;         /* PS_SINGLE_PASS | …; set by infer */
  uint64_t scratch_bytes; /* of a run over max_frames frames; set by make */
  uint64_t state_bytes;   /* of a session, 0 for none; set by infer */
} ps_needs;

/* One frame of a batch, for an operator with state. The frames of a session in one batch form a list in order. The
 * first continues from the state in half `half`; the last leaves the new state in the other half. At position 0 there
 * is no state yet, whatever is in memory. Without PS_WHOLE_FRAMES a session may be cut into frames anywhere: results
 * must not depend on it. */
typedef struct ps_frame {
  int64_t position; /* steps of the session before this frame */
  int32_t steps;    /* of this frame */
  int32_t produced; /* steps of the output */
  int32_t previous; /* index in the batch of the session's previous frame; -1: none */
  int32_t next;     /* of its next frame; -1: none */
  int32_t place;    /* of the session among the states */
  int32_t half;     /* of the state to read: 0 or 1 */
} ps_frame;

/* The sessions of a batch and their states; device memory on a GPU. May be a kernel's parameter, by value. */
typedef struct ps_session {
  const ps_frame* frames; /* one for each frame of the batch */
  unsigned char* pool;    /* aligned to 256 bytes */
  uint64_t stride;        /* bytes from one half to the next, a multiple of 256 */
} ps_session;

/* What one run reads and writes: memory of the device on a GPU, ordinary memory on the host. Aligned to 256 bytes;
 * on the host an input may be aligned to 8 bytes only. */
typedef struct ps_run {
  uint32_t size;
  const void* const* in;
  void* const* out;
  void* scratch; /* scratch_bytes, with any contents; nobody else uses it during the run */
  int64_t frames;
  int64_t leading; /* rows of each frame in this batch, where the first extent is variable */
  ps_session session;
  /* NULL on the host. On a GPU a cudaStream_t: everything before this stage has been launched on it. After `add` call
   * `flush` before you use it again. */
  void* stream;
  void* queue; /* for add and flush; NULL on the host */
  /* Adds a kernel, which is launched after those that were added, maybe in one CUDA graph with those of other stages.
   * `kernel`: a cudaKernel_t (cudaGetKernel, in make). `args` points to each of its `count` parameters, at most 16,
   * `sizes` has their bytes, 4096 in all at most. They are copied. `shared`: bytes of dynamic shared memory; above
   * 48 KiB make allows them with cudaFuncSetAttribute. Returns 0, or not; then the run may return at once. */
  int32_t (*add)(void* queue, const void* kernel, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
                 void* const* args, const size_t* sizes, uint32_t count);
  /* Launches what was added. Returns 0, or not; then the run may return at once. */
  int32_t (*flush)(void* queue);
} ps_run;

typedef struct ps_operator {
  uint32_t abi;     /* PENSTOCK_PLUGIN_ABI */
  uint32_t size;    /* sizeof(ps_operator) */
  const char* name; /* A-Z a-z 0-9 _ . -; static */
  /* Sets the outputs, *outs of them (at most PS_MOST_OUTPUTS), needs->flags and needs->state_bytes; all are zero
   * before. The first extent of a variable output is that of the input: it has as many rows as its input. Returns 0,
   * or not, and says why in `error`. Threads: any. */
  int32_t (*infer)(const ps_params*, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs, ps_needs* needs,
                   ps_error* error);
  /* Makes an operator for batches of up to max_frames frames, on a CUDA device, which is current, or on the host
   * (device -1). `needs` has what infer has set; make sets scratch_bytes. Returns 0, or not, and says why in `error`;
   * then nothing was made. */
  int32_t (*make)(const ps_params*, const ps_spec* in, uint32_t ins, int64_t max_frames, int32_t device, void** op,
                  ps_needs* needs, ps_error* error);
  /* Returns NULL, or the static name of an error, which ends the daemon's work with the device. On the host it works,
   * and several threads call it at once with the same `op`; denormal numbers are zero there. On a GPU it enqueues, and
   * one thread at a time calls it. */
  const char* (*run)(void* op, const ps_run*);
  /* No run is left. */
  void (*drop)(void* op);
} ps_operator;

/* The operator of that number; NULL beyond the last. The plug-in defines it. */
PS_EXPORT const ps_operator* penstock_plugin_v1(uint32_t index);

/* Fills an error; returns 1, for `return ps_fail(error, "window", "must be 1 or more")`. Longer texts are cut. */
static inline int32_t ps_fail(ps_error* error, const char* field, const char* text) {
  size_t at = 0;
  for (; field[at] != '\0' && at + 1 < sizeof error->field; ++at) {
    error->field[at] = field[at];
  }
  error->field[at] = '\0';
  for (at = 0; text[at] != '\0' && at + 1 < sizeof error->text; ++at) {
    error->text[at] = text[at];
  }
  error->text[at] = '\0';
  return 1;
}

/* A number of `values`, or `otherwise` where there is none. */
static inline double ps_number(const ps_params* params, const char* key, double otherwise) {
  double number = otherwise;
  return params->number(params, key, &number) ? number : otherwise;
}

static inline int64_t ps_integer(const ps_params* params, const char* key, int64_t otherwise) {
  int64_t number = otherwise;
  return params->integer(params, key, &number) ? number : otherwise;
}

/* Elements of a frame, at most. */
static inline int64_t ps_elements(const ps_spec* spec) {
  int64_t elements = 1;
  for (uint32_t axis = 0; axis < spec->rank; ++axis) {
    elements *= spec->extent[axis];
  }
  return elements;
}

/* Elements from one frame of the batch to the next. */
static inline int64_t ps_pitch(const ps_spec* spec, const ps_run* run) {
  const int64_t elements = ps_elements(spec);
  return spec->variable ? elements / spec->extent[0] * run->leading : elements;
}

/* Whether this frame is the first of its session in the batch. */
static inline PS_HOST_DEVICE int ps_first(ps_session session, int64_t frame) {
  return session.frames[frame].previous < 0;
}

/* Whether the session begins with this frame, so that there is no state yet. */
static inline PS_HOST_DEVICE int ps_begins(ps_session session, int64_t frame) {
  return session.frames[frame].position == 0;
}

/* The state that a session's frames of this batch start from, and where its last one leaves the new one. */
static inline PS_HOST_DEVICE const void* ps_before(ps_session session, int64_t frame) {
  const ps_frame* const at = session.frames + frame;
  return session.pool + (2 * (uint64_t)at->place + (uint64_t)at->half) * session.stride;
}

static inline PS_HOST_DEVICE void* ps_after(ps_session session, int64_t frame) {
  const ps_frame* const at = session.frames + frame;
  return session.pool + (2 * (uint64_t)at->place + (uint64_t)(1 - at->half)) * session.stride;
}

#ifdef __cplusplus
}
#endif

#endif
