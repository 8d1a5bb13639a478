// SPDX-License-Identifier: GPL-2.0-only
/* The programs are one translation unit with their tests: both see the same inline functions, and maps by name. */
#include "fake.h"
#include "machine.h"
#include "kfuncs.c"
#include "machine.c"
#include "cgroups.c"
#include "check.c"
#include "requests.c"
#include "cases.c"
#include "host.c"
#include "network.c"
#include "model.c"
#include "main.c"
