/* SPDX-License-Identifier: GPL-2.0-only */
/* emit: standard input to the emulator's debug port, which is a file outside. As fast as it goes, unlike a serial line. */
#include <stdio.h>
#include <sys/io.h>
#include <unistd.h>

#define PORT 0xe9

int main(void)
{
	char buf[4096];
	ssize_t n;

	if (ioperm(PORT, 1, 1)) {
		perror("emit");
		return 1;
	}
	while ((n = read(0, buf, sizeof(buf))) > 0)
		outsb(PORT, buf, n);
	return n < 0;
}
