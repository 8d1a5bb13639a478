/* SPDX-License-Identifier: GPL-2.0-only */
/* The three objects as one, as the loader makes them by sharing their maps; and their maps by name. */
#ifndef TAKT_TEST_PROGRAMS_H
#define TAKT_TEST_PROGRAMS_H

#define _license license_sched
#define TAKT_VERSION "test" /* of the build otherwise */
#include "sched.bpf.c"
#undef _license
#define _license license_kvm
#include "kvm.bpf.c"
#undef _license
#define _license license_net
#include "net.bpf.c"
#undef _license
#include "check.h"
#include "../../policy/core/init.h"

#endif
