/* SPDX-License-Identifier: GPL-2.0-only */
#define TAKT_ONLY poris
#include "one.h"
