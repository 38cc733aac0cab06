#!/usr/bin/python3
"""A GNU Radio flowgraph whose samples go through Penstock and come back, as flowgraph.grc has it, without a window.

    a tone in noise at 2.4 MS/s, with an rx_rate tag → ZMQ PUB sink → penstockd (gnuradio.toml)
    ZMQ SUB source → what came back
"""

import argparse
import time

import numpy
import pmt
from gnuradio import analog, blocks, gr, zeromq

RATE, DECIMATION, TONE = 2.4e6, 10, 50e3
HIGH_WATER_MARK = 1000  # messages that wait for a slow subscriber; what exceeds them is dropped


class Flowgraph(gr.top_block):
    def __init__(self, out, back):
        gr.top_block.__init__(self, "penstock")
        tone = analog.sig_source_c(RATE, analog.GR_COS_WAVE, TONE, 0.5)
        noise = analog.fastnoise_source_c(analog.GR_GAUSSIAN, 0.1, 1, 8192)
        # Hardware puts rx_time, rx_rate and rx_freq on its samples; here a block of zeros with tags is added.
        tags = blocks.tags_strobe(gr.sizeof_gr_complex, pmt.from_double(RATE), int(RATE), pmt.intern("rx_rate"))
        radio = blocks.add_cc()
        for port, each in enumerate((tone, noise, tags)):
            self.connect(each, (radio, port))
        sink = zeromq.pub_sink(gr.sizeof_gr_complex, 1, out, 100, True, HIGH_WATER_MARK)
        self.connect(radio, blocks.throttle(gr.sizeof_gr_complex, RATE), sink)
        self.heard = blocks.vector_sink_c()
        self.connect(zeromq.sub_source(gr.sizeof_gr_complex, 1, back, 100, True, HIGH_WATER_MARK), self.heard)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="tcp://127.0.0.1:5555", help="where the PUB sink binds")
    parser.add_argument("--back", default="tcp://127.0.0.1:7700", help="where the daemon's sink is")
    parser.add_argument("--seconds", type=float, default=5)
    chosen = parser.parse_args()
    flowgraph = Flowgraph(chosen.out, chosen.back)
    flowgraph.start()
    time.sleep(chosen.seconds)
    flowgraph.stop()
    flowgraph.wait()
    heard, rate = numpy.array(flowgraph.heard.data()), RATE / DECIMATION
    length = min(len(heard), 1 << 16)
    print(len(heard), "samples came back")
    if length:
        peak = numpy.abs(numpy.fft.fft(heard[-length:])).argmax()
        print(f"the strongest is at {numpy.fft.fftfreq(length, 1 / rate)[peak] / 1e3:.1f} kHz")


if __name__ == "__main__":
    main()
