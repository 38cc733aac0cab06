"""Writes weights.npy: beams of a line of antennas half a wave apart, from one side to the other."""
import numpy

BEAMS, ANTENNAS = 48, 16
sines = numpy.linspace(-1, 1, BEAMS)[:, None]
weights = numpy.exp(-1j * numpy.pi * sines * numpy.arange(ANTENNAS)) / ANTENNAS
numpy.save("weights.npy", numpy.stack([weights.real, weights.imag], axis=-1).astype(numpy.float32))
