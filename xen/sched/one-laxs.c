/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY laxs
#include "one.h"
