#pragma once

/// Marks what libpenstock.so shows; everything else in it is hidden.
#define PENSTOCK_EXPORT __attribute__((visibility("default")))
