/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY rr
#include "one.h"
