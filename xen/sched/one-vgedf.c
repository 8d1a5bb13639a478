/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY vgedf
#include "one.h"
