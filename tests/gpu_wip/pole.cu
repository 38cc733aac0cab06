struct frame {
  long long position;
  int steps, produced, previous, next, place, half;
};
struct session {
  const frame* frames;
  char* pool;
  unsigned long long stride;
};
extern "C" __global__ void pole(const float* in, float* out, session s, int frames, int n0, int n1, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, f = i / n1, c = i % n1;
  if (f >= frames || s.frames[f].previous >= 0)
    return;
  const frame first = s.frames[f];
  float y = first.position == 0
                ? 0
                : reinterpret_cast<const float*>(s.pool + (2ull * first.place + first.half) * s.stride)[c];
  for (int g = f; g >= 0; g = s.frames[g].next)
    for (int k = 0; k < s.frames[g].steps; ++k) {
      const long long at = ((long long)g * n0 + k) * n1 + c;
      y = in[at] + a * y;
      out[at] = y;
    }
  reinterpret_cast<float*>(s.pool + (2ull * first.place + (1 - first.half)) * s.stride)[c] = y;
}
