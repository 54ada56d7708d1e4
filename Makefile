# Start with `make demo` and `make test`. `make help` lists all targets.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
LINT     := $(GO) tool -modfile=tools/go.mod golangci-lint
RELEASER := $(GO) tool -modfile=tools/release/go.mod goreleaser
WORKFLOWCHECK := $(GO) run go.temporal.io/sdk/contrib/tools/workflowcheck@v0.6.0
OPENCODE := $(CURDIR)/tools/node_modules/.bin/opencode
# Each test binary may start an OpenCode server of 0.6 GB. Two packages at a time suit two cores, and four tests of each
# keep them busy while sessions wait. Seeds are fixed, so that runs repeat; `make fuzz`, `make simulate` and `make
# torture` draw fresh ones. The servers live for seconds to minutes: a JIT that starts later, and without its last stage,
# saves a fifth of their CPU time, and a garbage collector that does not run beside the program, which calls it after
# each HTTP request, a third of a long-lived one's (measured). `make check` vets, and these binaries need no debug symbols.
TESTFLAGS ?= -p 2 -parallel 4 -timeout 60m -shuffle=1 -vet=off -ldflags=-s
TESTENV := RAPID_SEED=1 BUN_JSC_useFTLJIT=0 BUN_JSC_thresholdForOptimizeAfterWarmUp=5000 BUN_JSC_thresholdForOptimizeSoon=5000 BUN_JSC_useConcurrentGC=0

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

.PHONY: tools
tools: ## install the pinned OpenCode under tools/
	@tools/install-opencode.sh

.PHONY: temporal-devserver
temporal-devserver: ## build bin/temporal-devserver, for the tests of temporal/ (once, minutes)
	@tools/temporal-devserver.sh

.PHONY: build
build: ## build bin/manager
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/manager ./cmd/manager

.PHONY: demo
demo: tools build ## the main job, offline: real OpenCode, scripted model, sample repository
	bin/manager demo --opencode $(OPENCODE)

.PHONY: test
test: tools ## all tests, end-to-end on the real OpenCode included
	$(TESTENV) $(GO) test $(TESTFLAGS) ./...
	cd examples && $(GO) test -vet=off ./...

# What `make quick` leaves out: half of its time would go to interruptions at every step, and to equal runs twice.
SLOW := Kill|Crash|AllOrNothing|FlippedBits|Determinism

.PHONY: quick
quick: ## packages whose tests need no OpenCode, with fewer random inputs and without SLOW (within a minute)
	RAPID_SEED=1 $(GO) test $(TESTFLAGS) -short -skip '$(SLOW)' $$(comm -23 <($(GO) list ./... | sort) \
		<(git grep -lE 'testkit/octest"|managertest"' -- '*_test.go' | xargs -n1 dirname | sed 's,^,$(shell $(GO) list -m)/,' | sort -u))

T ?=
.PHONY: one
one: tools ## the tests that T names, on OpenCode: make one T=TestScripts/opencode1/plan
	$(TESTENV) $(GO) test $(TESTFLAGS) -count=1 -run '^$(subst /,$$/^,$(T))$$' \
		$$(git grep -lE '^func $(firstword $(subst /, ,$(T)))\(' -- '*_test.go' ':!temporal' ':!cmd/manager-temporal' ':!examples' | xargs -n1 dirname | sort -u | sed 's,^,./,')

.PHONY: golden
golden: tools ## write the golden files and the scripts' expected output again; look at the diff
	$(TESTENV) $(GO) test $(TESTFLAGS) $$(git grep -lE 'testkit/golden"' -- '*_test.go' | xargs -n1 dirname | sort -u | sed 's,^,./,') -update

.PHONY: test-temporal
test-temporal: tools temporal-devserver ## the modules temporal/ and cmd/manager-temporal: checks, and all tests on a real Temporal server
	cd temporal && $(WORKFLOWCHECK) -config workflowcheck.yaml ./flow ./limiter
	for module in temporal cmd/manager-temporal; do ( cd $$module && $(GO) vet ./... && $(GO) mod tidy -diff && \
		$(TESTENV) $(GO) test $(TESTFLAGS) -parallel 8 ./... ); done # these tests mostly wait

.PHONY: race
race: tools ## all tests with the race detector
	$(TESTENV) $(GO) test $(TESTFLAGS) -race ./...

N ?= 200000

.PHONY: simulate
simulate: ## N (200,000) boulders in random worlds with crashes, from a fresh seed (15 min on two free cores)
	$(GO) test ./testkit/simulate -run TestSimulation -count=1 -timeout 0 -v -fresh -runs=$(N)

KILLS ?= 60

.PHONY: torture
torture: tools ## kill -9 of manager and OpenCode at KILLS (60) random moments of real runs (12 s each), at each kind of git command, at each system call of landing (strace; 20 min), and at each step of a question and its answer (an hour); 20 sessions watched at once
	$(GO) test ./cmd/internal/cli -run 'TestKill(9|AtGit|AtSyscall|AtQuestion)$$' -kills=$(KILLS) -kill-seed=0 -kill-git=50 -kill-syscalls=0 -kill-questions=0 -timeout 5h -v
	$(GO) test ./workspace -run Landing -count=1 -every-step
	$(GO) test ./project/internal/watch -run ManySessions -count=1 -sessions=20 -v

.PHONY: check
check: ## formatting, vet, lint, tidy
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
		test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) mod tidy -diff
	cd examples && $(GO) vet ./... && $(GO) mod tidy -diff
	$(LINT) run ./...
	cd temporal && $(GO) tool -modfile=../tools/go.mod golangci-lint run ./...
	cd cmd/manager-temporal && $(GO) tool -modfile=../../tools/go.mod golangci-lint run ./...

.PHONY: bench
bench: tools build ## speed and memory, as ratios (minutes)
	bench/run.sh

.PHONY: night
night: tools build ## eight simulated hours of an unattended run: providers that run out and lie, a question, a crash (seven minutes)
	bench/night.sh

EVENING ?= /tmp/manager-evening

.PHONY: evening
evening: tools build ## an evening of a new user in tmux and Chromium, each screen in EVENING (/tmp/manager-evening)
	$(GO) run ./bench/evening $(EVENING)

.PHONY: bench-temporal
bench-temporal: temporal-devserver ## boulders on Temporal: overhead, histories, growth to 1,000, recovery (minutes)
	cd temporal && $(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./bench

.PHONY: fuzz
fuzz: ## each fuzz target with 50,000 inputs, and property tests without OpenCode ten times as long, from fresh seeds
	tests() { git grep -l "/$$1\"" -- '*_test.go' ':!temporal' ':!cmd/manager-temporal' | xargs -n1 dirname | sort -u | sed 's,^,./,'; }; \
		RAPID_CHECKS=1000 $(GO) test -count=1 -shuffle=on $$(comm -23 <(tests rapid) <(tests octest))
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime 50000x -fuzzminimizetime 1s $$pkg; \
		done; \
	done

SCREENSHOTS ?= /tmp/manager-pages
PICTURES ?=

# It needs chromium and tmux. PICTURES=docs/pictures also makes those of the README; UI_PROJECT, UI_BOULDER and UI_TASK: yours.
.PHONY: look
look: build ## every page and terminal screen, checked in Chromium, on one contact sheet: SCREENSHOTS (/tmp/manager-pages)
	mkdir -p $(SCREENSHOTS)
	SCREENSHOTS=$(SCREENSHOTS) PICTURES=$(abspath $(PICTURES)) MANAGER=$(CURDIR)/bin/manager \
		$(GO) test -tags chromium -count=1 -run TestChromium -v ./cmd/internal/web

.PHONY: snapshot
snapshot: ## what a release publishes (archives, packages, SBOMs), in dist/; the first time it builds goreleaser (minutes)
	$(RELEASER) check
	$(RELEASER) release --snapshot --clean

.PHONY: try-deb
try-deb: ## the package from dist/ in a fresh Debian: installed, tried, removed (root, mmdebstrap)
	tools/try-deb.sh

.PHONY: clean
clean: ## remove what was built and installed
	rm -rf bin dist tools/node_modules
