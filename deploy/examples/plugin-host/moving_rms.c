/* A plug-in for penstockd: the root of the mean square of the last `window` samples, along a session and for each
 * channel. Build it with CMakeLists.txt, or with a compiler alone:
 *
 *   cc -std=c11 -O2 -fPIC -shared moving_rms.c -o moving_rms.so -lm */
#include <math.h>
#include <penstock/plugin.h>
#include <stdlib.h>
#include <string.h>

typedef struct moving_rms {
  ps_spec input;
  int64_t window;
  int64_t channels;
} moving_rms;

static int64_t channels_of(const ps_spec* spec) {
  return ps_elements(spec) / spec->extent[0];
}

static int32_t infer(const ps_params* params, const ps_spec* in, uint32_t ins, ps_spec* out, uint32_t* outs,
                     ps_needs* needs, ps_error* error) {
  const int64_t window = ps_integer(params, "window", 0);
  if (ins != 1 || in->code != PS_FLOAT || in->bits != 32) {
    return ps_fail(error, "from", "moving_rms takes one input, of f32");
  }
  if (window < 1 || window > 1000000) {
    return ps_fail(error, "window", "must be a whole number from 1 to 1000000");
  }
  *out = *in;
  *outs = 1;
  /* The last samples: sample k of the session lies at k modulo window. */
  needs->state_bytes = (uint64_t)(window * channels_of(in)) * sizeof(float);
  return 0;
}

static int32_t make(const ps_params* params, const ps_spec* in, uint32_t ins, int64_t max_frames, int32_t device,
                    void** op, ps_needs* needs, ps_error* error) {
  moving_rms* made;
  (void)ins;
  (void)max_frames;
  (void)needs;
  if (device >= 0) {
    return ps_fail(error, "", "moving_rms runs on the host alone");
  }
  made = malloc(sizeof *made);
  if (made == NULL) {
    return ps_fail(error, "", "no memory");
  }
  made->input = *in;
  made->window = ps_integer(params, "window", 0);
  made->channels = channels_of(in);
  *op = made;
  return 0;
}

/* Takes one row of samples into the window and writes the result of each channel. */
static void step(const moving_rms* self, float* window, int64_t position, const float* in, float* out) {
  for (int64_t channel = 0; channel < self->channels; ++channel) {
    double sum = 0.0;
    window[position % self->window * self->channels + channel] = in[channel];
    for (int64_t at = 0; at < self->window; ++at) {
      const double sample = window[at * self->channels + channel];
      sum += sample * sample;
    }
    out[channel] = (float)sqrt(sum / (double)self->window);
  }
}

static const char* run(void* op, const ps_run* run) {
  const moving_rms* self = op;
  const float* in = run->in[0];
  float* out = run->out[0];
  const int64_t pitch = ps_pitch(&self->input, run);
  for (int64_t first = 0; first < run->frames; ++first) {
    const size_t bytes = (size_t)(self->window * self->channels) * sizeof(float);
    float* window = ps_after(run->session, first);
    if (!ps_first(run->session, first)) {
      continue; /* done with the session's first frame of the batch */
    }
    if (ps_begins(run->session, first)) {
      memset(window, 0, bytes);
    } else {
      memcpy(window, ps_before(run->session, first), bytes);
    }
    for (int64_t frame = first; frame >= 0; frame = run->session.frames[frame].next) {
      const ps_frame* at = &run->session.frames[frame];
      for (int64_t row = 0; row < at->steps; ++row) {
        const int64_t begin = frame * pitch + row * self->channels;
        step(self, window, at->position + row, in + begin, out + begin);
      }
    }
  }
  return NULL;
}

const ps_operator* penstock_plugin_v1(uint32_t index) {
  static const ps_operator moving = {PENSTOCK_PLUGIN_ABI, sizeof(ps_operator), "moving_rms", infer, make, run, free};
  return index == 0 ? &moving : NULL;
}
