# SPDX-License-Identifier: GPL-2.0-only
# make demo   the VoIP host under three schedulers, with a report
# make test   all tests        make bench   all benchmarks

CARGO ?= cargo
OUT ?= out
TAKT = target/release/takt

.PHONY: all demo test bench lint clean setup setup-test takt

all: takt

setup:
	@scripts/setup.sh build

setup-test:
	@scripts/setup.sh test

takt: setup
	@$(CARGO) build --release --locked -p takt

demo: takt
	@mkdir -p $(OUT)
	@$(TAKT) sim scenarios/voip.toml --policy pin --policy credit --policy doris --html $(OUT)/demo.html
	@echo "report: $(OUT)/demo.html"

# Style first (where the tools are there), then everything that can fail.
test: setup-test lint
	@scripts/test.sh

lint:
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(CARGO) fmt --all --check; \
	 else echo "SKIPPED: cargo fmt is not installed"; fi
	@if $(CARGO) clippy --version >/dev/null 2>&1; then $(CARGO) clippy --locked --workspace --all-targets -- -D warnings; \
	 else echo "SKIPPED: cargo clippy is not installed"; fi

bench: setup-test
	@$(CARGO) run --release --locked -p takt-bench

clean:
	@$(CARGO) clean
	@rm -rf $(OUT)
