/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY doris
#include "one.h"
