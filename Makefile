# SPDX-License-Identifier: GPL-2.0-only
# make demo   the VoIP host under three schedulers, with a report
# make test   all tests        make bench   all benchmarks
# make test-long   the tests of several minutes each; ONLY=hosts selects
# make docs   the output in README.md as the program prints it now
# make install   the program with its service; PREFIX=/usr/local DESTDIR= ; make uninstall removes it
# make deb    a Debian package in out/

CARGO ?= cargo
OUT ?= out
TAKT = target/release/takt

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc

.PHONY: all demo test test-linux test-xen test-long docs bench lint clean install uninstall deb setup setup-test setup-linux takt takt-linux takt-xen

# With the live host (takt run), which needs a BPF compiler to build.
all: takt-linux

setup:
	@scripts/setup.sh build

setup-linux:
	@scripts/setup.sh linux

setup-test:
	@scripts/setup.sh test

takt: setup
	@$(CARGO) build --release --locked -p takt

takt-linux: setup-linux
	@$(CARGO) build --release --locked -p takt --features linux

# The same commands for Xen's Dom0.
takt-xen: setup-linux
	@$(CARGO) build --release --locked -p takt --features xen

# What `make takt-linux` has built, as root: it builds nothing. docs/operating.md has the steps after it.
install:
	@PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' scripts/install.sh

uninstall:
	@UNINSTALL=1 PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' DESTDIR='$(DESTDIR)' scripts/install.sh

deb: takt-linux
	@OUT='$(OUT)' scripts/deb.sh

# The paper's host at 90 calls, then voice quality against the number of calls.
demo: takt
	@mkdir -p $(OUT)
	@$(TAKT) sim scenarios/voip.toml --policy pin --policy credit --policy doris --html $(OUT)/demo.html
	@echo
	@$(TAKT) experiment DORIS-E2 --known --seeds 1-2 --html $(OUT)/calls.html
	@echo
	@echo "reports: $(OUT)/demo.html (90 calls, with a timeline), $(OUT)/calls.html (5 to 90 calls)"

# Style first (where the tools are there), then everything that can fail.
test: setup-test lint
	@scripts/test.sh

# The part of it that needs longest: the live host in emulated machines, under load and abuse.
test-linux: setup-test
	@$(CARGO) build --release --locked -p takt --features takt/linux -p takt-vmm -p takt-lab
	@$(CARGO) test --release --locked -p takt-lab --no-fail-fast --test linux -- --nocapture --test-threads 2

# The hypervisor, likewise.
test-xen: setup-test
	@$(CARGO) build --release --locked -p takt --features takt/linux,takt/xen -p takt-lab
	@$(CARGO) test --release --locked -p takt-lab --no-fail-fast --test xen -- --nocapture --test-threads 2

# What make test leaves out: each test needs minutes, all of them hours. ONLY=hosts selects by name; ends with a table.
test-long: setup-test
	@CARGO='$(CARGO)' ONLY='$(ONLY)' scripts/test-long.sh

docs: setup-test
	@CARGO='$(CARGO)' scripts/docs.sh

lint:
	@scripts/lint.sh

bench: setup-test
	@$(CARGO) run --release --locked -p takt-bench

clean:
	@$(CARGO) clean
	@rm -rf $(OUT)
