# CipherStore. `make help` lists what there is; .ci/setup says what a machine needs and brings it.

SWIFT ?= swift
# One set of flags for every debug build, so that build, test and lint share one build. Empty it (make test WARNINGS=)
# to try a compiler that warns about more than this code was written for.
WARNINGS ?= -Xswiftc -warnings-as-errors -Xcc -Wall -Xcc -Wextra -Xcc -Werror
# The demo's data: the EPSG registry, from Debian's proj-data.
DEMO_DATABASE ?= /usr/share/proj/proj.db
# How long `make soak` lets the bank work, and how often it kills a process elsewhere.
MINUTES ?= 30
KILLS ?= 10000
# Where `make install` puts things.
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: setup build test soak lint demo bench bench-sharing bench-rotation tsan asan docs install clean help

setup:  ## bring this machine what the package needs (SQLCipher 4, OpenSSL, a linker); quick when it is all there
	@.ci/setup

build: setup  ## build the library, cipherctl and the tests
	$(SWIFT) build --build-tests $(WARNINGS)

test: setup  ## run every test (SUITES=NAME for some of them)
	SUITES="$(SUITES)" .ci/test "$(SWIFT)" $(WARNINGS)

soak: setup  ## run the bank for MINUTES=30 and KILLS=10000 random kills and each faulty call (SEED= plays one back)
	@case "$(MINUTES)$(KILLS)" in *[!0-9]*) echo "MINUTES and KILLS are whole numbers" >&2; exit 1;; esac
	CIPHERSTORE_BANK_SECONDS=$$(( $(MINUTES) * 60 )) CIPHERSTORE_KILLS=$(KILLS) CIPHERSTORE_WAITERS=1000 \
	CIPHERSTORE_FAULTS=all $(if $(SEED),CIPHERSTORE_SEED=$(SEED)) $(SWIFT) test --disable-xctest --no-parallel $(WARNINGS) \
	--filter 'BankTests|KillTests|FaultTests|RotationFaultTests|KeyFaultTests|StoreFaultTests' \
	--filter 'PowerCutTests|LogResetTests|MishapTests|CrashTests.RotationTests'

lint: setup  ## check the formatting, the fences (Tests/Tidy) and that nothing warns
	$(SWIFT) format lint --strict --parallel --recursive Sources Tests Package.swift
	$(SWIFT) build --build-tests $(WARNINGS)
	$(SWIFT) test --skip-build --disable-xctest --filter TidyTests $(WARNINGS)
	@for script in .ci/setup .ci/run .ci/test .ci/sanitized .ci/bare-root .ci/install .ci/docs; do bash -n $$script || exit 1; done
	@! command -v shellcheck >/dev/null || shellcheck .ci/setup .ci/run .ci/test .ci/sanitized .ci/bare-root .ci/install .ci/docs

demo: setup  ## encrypt a real database, share it between four processes, verify every page
	$(SWIFT) build -c release --product cipherctl
	$(SWIFT) build -c release --product StoreDemo
	"$$($(SWIFT) build -c release --show-bin-path)/StoreDemo" $(DEMO_DATABASE)

bench: setup  ## measure the library beside plain C (JSON=FILE writes figures, REPORT=1 Docs/Performance.md, ONLY=TEXT)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" $(if $(ALLOCATIONS),--allocations) \
		$(if $(JSON),--json "$(JSON)") $(if $(REPORT),--report Docs) $(if $(ONLY),--only "$(ONLY)")

# Whole suite under a sanitizer, in a folder of its own. SUITES narrows it: make tsan SUITES=CipherDatabaseTests
# Sources/CPlatform/ThreadSanitizer.c says what is wrapped, and why.
tsan: MUTEX = $$s15Synchronization12_MutexHandleV
tsan: setup  ## run the tests under ThreadSanitizer (SUITES=NAME for some of them)
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/Support/tsan.supp $(TSAN_OPTIONS)" \
		.ci/sanitized TSAN_OPTIONS $(SWIFT) test --sanitize=thread $(SANITIZED) \
		-Xlinker '--wrap=$(MUTEX)9_lockSlowyys6UInt32VF' -Xlinker '--wrap=$(MUTEX)11_unlockSlowyyF'

asan: setup  ## run the tests under AddressSanitizer (SUITES=NAME for some of them)
	LSAN_OPTIONS="suppressions=$(CURDIR)/Tests/Support/lsan.supp print_suppressions=0 $(LSAN_OPTIONS)" \
		.ci/sanitized ASAN_OPTIONS $(SWIFT) test --sanitize=address $(SANITIZED)

tsan asan: SANITIZED = --scratch-path .build/$@ --disable-xctest --no-parallel $(WARNINGS) \
	$(if $(SUITES),--filter "$(SUITES)")

docs: setup  ## build the API reference with the toolchain's docc, without network: .build/docs/CipherStore.doccarchive
	$(SWIFT) build $(WARNINGS)
	.ci/docs "$$($(SWIFT) build --show-bin-path $(WARNINGS))"

bench-sharing: setup  ## measure processes that write to one store: writer queue, SQLite's busy handler, plain C
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --sharing

bench-rotation: setup  ## change keys under load and tell the longest pause (MEGABYTES=100,1024)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --rotation $(if $(MEGABYTES),--megabytes $(MEGABYTES))

install: setup  ## install cipherctl, its manual page and completions (PREFIX=/usr/local, DESTDIR= for packages)
	$(SWIFT) build -c release --product cipherctl
	.ci/install "$$($(SWIFT) build -c release --show-bin-path)/cipherctl" "$(DESTDIR)$(PREFIX)"

clean:  ## remove everything that was built here
	rm -rf .build Tests/Consumer/.build

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 19
