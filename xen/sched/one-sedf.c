/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY sedf
#include "one.h"
