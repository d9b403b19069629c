# CipherStore. `make help` lists what there is; .ci/setup says what a machine needs and brings it.

SWIFT ?= swift
# One set of flags for every debug build, so that build, test and lint share one build. Empty it (make test WARNINGS=)
# to try a compiler that warns about more than this code was written for.
WARNINGS ?= -Xswiftc -warnings-as-errors -Xcc -Wall -Xcc -Wextra -Xcc -Werror
# libpq, for the PostgreSQL remote and its tests; a program that uses this package decides for itself.
TRAITS ?= --traits PostgreSQL,S3,TPM2
BUILD = $(TRAITS) $(WARNINGS)
# The examples and the consumer are a package of their own. It has a folder of its own: SwiftPM keeps one description of a
# build in each, and takes that of another package for its own.
WORKBENCH = --package-path Sources/Workbench --scratch-path .build/workbench $(WARNINGS)
# OPTIMIZED=1 optimizes the library and the programs in debug builds, not the tests (Package.swift): they take longer to build.
ifneq ($(OPTIMIZED),)
export CIPHERSTORE_OPTIMIZED = 1
endif
# The demo's data: the EPSG registry, from Debian's proj-data.
DEMO_DATABASE ?= /usr/share/proj/proj.db
# How long `make soak` lets the bank work, how often it kills a process elsewhere, the commits that are observed,
# and the schedules of stores that exchange commits (FIRST is the number of the first one, JOBS how many processes run).
MINUTES ?= 30
KILLS ?= 10000
COMMITS ?= 1000000
SCHEDULES ?= 20000
FIRST ?= 0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# How many seconds `make soak` gives each fuzz target.
FUZZ_SECONDS ?= 300
# How many seconds eight stores sync while they are killed and their server ends.
SYNC_SECONDS ?= $$(( $(MINUTES) * 60 ))
# Checks the fences; `make test` does too, and who has just run it may leave this empty.
FENCES ?= $(SWIFT) test --skip-build --disable-xctest --filter TidyTests $(BUILD)
# What `make lint` checks beside Swift.
SCRIPTS = .ci/setup .ci/run .ci/check .ci/test .ci/sanitized .ci/readme .ci/bare-root .ci/install .ci/deb .ci/deb-day .ci/docs .ci/demo-sync .ci/conformance .ci/fuzz .ci/simulation .ci/refused
# Where `make install` puts things.
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: setup build check test conformance soak simulation fuzz lint demo demo-sync examples readme consumer bench bench-sharing bench-rotation bench-observation bench-sync bench-conformance tsan asan docs deb install clean help

setup:  ## bring this machine what the package needs (SQLCipher 4, OpenSSL, a linker); SQLCIPHER=newest builds that of Debian unstable
	@.ci/setup $(if $(filter newest,$(SQLCIPHER)),--newest)

build: setup  ## build the library, cipherctl and the tests
	$(SWIFT) build --build-tests $(BUILD)

check: setup  ## build, and run the fences and the quick unit tests: what to run after each change
	.ci/check "$(SWIFT)" $(BUILD)

test: setup  ## run every test (ONLY=NAME for some of them, with the same build)
	ONLY="$(ONLY)" .ci/test "$(SWIFT)" $(BUILD)

soak: setup  ## the bank for MINUTES=30, KILLS=10000 kills, COMMITS=1000000 observed, SCHEDULES=20000 syncs, FUZZ_SECONDS=300 a target, faulty calls, crowds (SEED= replays)
	@case "$(MINUTES)$(KILLS)$(COMMITS)$(SCHEDULES)$(FUZZ_SECONDS)" in \
	*[!0-9]*) echo "MINUTES, KILLS, COMMITS, SCHEDULES and FUZZ_SECONDS are whole numbers" >&2; exit 1;; esac
	$(MAKE) simulation
	.ci/fuzz $(FUZZ_SECONDS)
	CIPHERSTORE_BANK_SECONDS=$$(( $(MINUTES) * 60 )) CIPHERSTORE_KILLS=$(KILLS) CIPHERSTORE_WAITERS=1000 \
	CIPHERSTORE_CROWD=200 CIPHERSTORE_FAULTS=all CIPHERSTORE_COMMITS=$(COMMITS) \
	CIPHERSTORE_SCHEDULES=$$(( $(SCHEDULES) / 50 + 1 )) CIPHERSTORE_OBJECTS=50000 CIPHERSTORE_RUNS=20 CIPHERSTORE_SYNC_SECONDS=$(SYNC_SECONDS) $(if $(SEED),CIPHERSTORE_SEED=$(SEED)) \
	$(SWIFT) test --disable-xctest --no-parallel $(BUILD) \
	--filter 'BankTests|KillTests|FaultTests|RotationFaultTests|KeyFaultTests|StoreFaultTests|JournalReplayTests' \
	--filter 'BesideRotationTests|PromptTests|InterruptedRestorationTests|LostCopyTests|RecoveryCrashTests|ReplicaOverServerTests' \
	--filter 'ChangesetSyncTests|PostgreSQLFaultTests|ServerAccessTests|SyncProcessTests|SyncSoakTests|SyncCrashTests' \
	--filter 'PlantedEntryTests|ShortageTests|LockWaitTests|AdoptRefusalTests|FailedReadTests|CommandBadInputTests|KeyCommandTests' \
	--filter 'RepositoryCommandTests|CommandLineTests[.]HistoryTests|InteroperabilityTests|ProgramKeyTests|StoreSalvageTests' \
	--filter 'ConflictClauseTests|ChangedRowTests|LinkedColumnTests|RecordBadInputTests|SidecarParserTests' \
	--filter 'PowerCutTests|BackupCrashTests|WALResetTests|MishapTests|CrowdTests|OpeningTests|WakeUpTests|RotationCrashTests' \
	--filter 'ReplicationCrashTests|ReplicaMomentTests|ReplicationTests|ReplicaObjectTests'

simulation: setup  ## SCHEDULES=20000 seeded schedules of stores that sync, from FIRST=0 on, by JOBS processes (REPLAY=N, SHRINK=N)
	$(SWIFT) build -c release --product SyncSimulator
	@simulator="$$($(SWIFT) build -c release --show-bin-path)/SyncSimulator"; \
	$(if $(REPLAY),"$$simulator" --replay $(REPLAY),$(if $(SHRINK),"$$simulator" --shrink $(SHRINK),\
	.ci/simulation "$$simulator" $(FIRST) $(SCHEDULES) $(JOBS)))

fuzz: setup  ## give the readers of files inputs that libFuzzer finds, each for SECONDS=4 (ONLY=TARGET for one)
	.ci/fuzz $(or $(SECONDS),4) $(ONLY)

lint: setup  ## check the formatting, the fences (Tests/Tidy) and that nothing warns
	$(SWIFT) format lint --strict --parallel --recursive Sources Tests Package.swift
	$(SWIFT) build --build-tests $(BUILD)
	$(FENCES)
	@for script in $(SCRIPTS); do bash -n $$script || exit 1; done
	@! command -v shellcheck >/dev/null || shellcheck $(SCRIPTS)

conformance: setup  ## read the vectors of Keys/conformance with this code and with Python's, and compare the verdicts
	$(SWIFT) build --build-tests $(BUILD)
	.ci/conformance "$(SWIFT)" $(BUILD)

demo: setup  ## encrypt a real database, share it between four processes, verify every page
	$(SWIFT) build -c release --product cipherctl
	$(SWIFT) build -c release --product StoreDemo
	"$$($(SWIFT) build -c release --show-bin-path)/StoreDemo" $(DEMO_DATABASE)

demo-sync: setup  ## two devices, offline and online, and one that joins: a remote that reads nothing, equal digests at the end
	$(SWIFT) build --product cipherctl $(BUILD)
	.ci/demo-sync "$$($(SWIFT) build --show-bin-path $(BUILD))/cipherctl"

examples: setup  ## run the programs of Sources/Workbench/Examples, each with a second process
	@for name in PlayersAndTeams Bookshelf Inbox LiveTable SyncTwoDevices; do \
		$(SWIFT) run $(WORKBENCH) $$name || exit 1; \
	done

readme: setup  ## run the code and the commands of the READMEs
	.ci/readme "$(SWIFT)" $(WORKBENCH)

consumer: setup  ## build and run code that uses the package as its users do, in both language modes
	$(SWIFT) build --build-tests $(WORKBENCH)
	for name in ConsumerMode5 ConsumerMode6; do $(SWIFT) run $(WORKBENCH) --skip-build $$name || exit 1; done
	$(SWIFT) test $(WORKBENCH) --skip-build
	.ci/refused .build/workbench/debug

bench: setup  ## measure the library beside plain C (JSON=FILE writes figures, REPORT=1 Docs/Performance.md, ONLY=TEXT)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" $(if $(ALLOCATIONS),--allocations) \
		$(if $(JSON),--json "$(JSON)") $(if $(REPORT),--report Docs) $(if $(ONLY),--only "$(ONLY)")

# Whole suite under a sanitizer, in a folder of its own. ONLY narrows it: make tsan ONLY=CipherDatabaseTests
# Sources/CPlatform/ThreadSanitizer.c says what is wrapped, and why.
tsan: MUTEX = $$s15Synchronization12_MutexHandleV
tsan: setup  ## run the tests under ThreadSanitizer (ONLY=NAME for some of them)
	TSAN_OPTIONS="suppressions=$(CURDIR)/Tests/Support/tsan.supp $(TSAN_OPTIONS)" \
		.ci/sanitized TSAN_OPTIONS $(SWIFT) test --sanitize=thread $(SANITIZED) \
		-Xlinker '--wrap=$(MUTEX)9_lockSlowyys6UInt32VF' -Xlinker '--wrap=$(MUTEX)11_unlockSlowyyF'

asan: setup  ## run the tests under AddressSanitizer (ONLY=NAME for some of them)
	LSAN_OPTIONS="suppressions=$(CURDIR)/Tests/Support/lsan.supp print_suppressions=0 $(LSAN_OPTIONS)" \
		.ci/sanitized ASAN_OPTIONS $(SWIFT) test --sanitize=address $(SANITIZED)

tsan asan: SANITIZED = --scratch-path .build/$@ --disable-xctest --no-parallel $(BUILD) \
	$(if $(ONLY),--filter "$(ONLY)")

docs: setup  ## build the API reference with the toolchain's docc, without network: .build/docs/CipherStore.doccarchive
	$(SWIFT) build $(BUILD)
	.ci/docs "$$($(SWIFT) build --show-bin-path $(BUILD))"

bench-sharing: setup  ## processes that write to one store, beside SQLite's own way (PROCESSES=1,8,32,64,200)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --sharing \
		$(if $(PROCESSES),--processes $(PROCESSES))

bench-rotation: setup  ## change keys under load and print the longest pause (MEGABYTES=100,1024,4096,10240)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --rotation $(if $(MEGABYTES),--megabytes $(MEGABYTES))

bench-observation: setup  ## observing: cost, latency between processes, idle, bursts (OBSERVERS=1,20,100, REPORT=1)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --observation \
		$(if $(OBSERVERS),--observers $(OBSERVERS)) $(if $(PARTS),--parts $(PARTS)) $(if $(REPORT),--report Docs)

bench-sync: setup  ## commits and devices: cost, sizes, copies, long pulls, a server, 1000 authors (PARTS=capture, ROWS=1000000, SERVER=URL)
	$(SWIFT) build -c release $(if $(SERVER),--traits PostgreSQL) --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --sync --peer .ci/doltlite.py \
		$(if $(PARTS),--parts $(PARTS)) $(if $(ROWS),--rows $(ROWS)) $(if $(SERVER),--server "$(SERVER)") \
		$(if $(REPORT),--report Docs)

bench-conformance: setup  ## HMAC by libcrypto alone, verify and the conformance kit, in turns on one store (MEGABYTES=1024, RUNS=5)
	$(SWIFT) build -c release --product StoreBenchmark
	"$$($(SWIFT) build -c release --show-bin-path)/StoreBenchmark" --conformance \
		$(if $(MEGABYTES),--megabytes $(MEGABYTES)) $(if $(RUNS),--runs $(RUNS))

deb: setup  ## build the packages of Debian: cipherctl without need of Swift, and its services (.build/deb)
	.ci/deb "$(SWIFT)" $(TRAITS)

install: setup  ## install cipherctl, its manual page and completions (PREFIX=/usr/local, DESTDIR= for packages)
	$(SWIFT) build -c release --product cipherctl
	.ci/install "$$($(SWIFT) build -c release --show-bin-path)/cipherctl" "$(DESTDIR)$(PREFIX)"

clean:  ## remove everything that was built here
	rm -rf .build Sources/Workbench/.build

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 21
