# Everything that a user or a developer runs. `make demo` needs Go alone; the other
# targets install what they need through `make setup` (as root, for apt-get).
GO      ?= go
SECONDS ?= 60
SEEDS   ?= 1000
MINUTES ?= 30
LOSSES  ?= 50
BUDGET  ?= 2000
SEED    ?= 1
JOBS    ?= 0
IMAGES  ?= 100000
SKIP    ?=
MUTANT  ?=
CACHE   := .cache
BIN     := $(CACHE)/bin
LINT    := $(BIN)/golangci-lint
export GOLANGCI_LINT_CACHE := $(CURDIR)/$(CACHE)/golangci
LINT_VERSION := v2.12.0
PROTON  := $(CACHE)/proton
PROTON_VERSION := 0.40.0
RHEA    := $(CACHE)/rhea
SHARED  := ../shared

.PHONY: all amqp build demo test unit interop check lint fmt fuzz bench jms setup invariants sim mutants clean suites faults soak power tools record replay qemu

all: build

build: ## the binary, bin/oncemq
	$(GO) build -o bin/oncemq ./cmd/oncemq

demo: ## the main job: 60 s of transactions under kill -9
	$(GO) run ./cmd/oncemq demo --duration 60s

setup: jms $(PROTON)/ready $(RHEA)/ready tools ## what the tests need beyond Go: a JDK and Maven, Qpid JMS, python-proton, Node.js and rhea, tools for faults
	cd test && $(GO) mod download

$(PROTON)/ready:
	@command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3 python3-venv python3-pip; }
	python3 -m venv $(PROTON)
	$(PROTON)/bin/pip install -q --disable-pip-version-check "python-qpid-proton==$(PROTON_VERSION)"
	touch $@

$(RHEA)/ready: test/rhea/package.json
	@command -v node >/dev/null && command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm; }
	mkdir -p $(RHEA) && cp test/rhea/package.json $(RHEA)/
	npm install --prefix $(RHEA) --silent --no-audit --no-fund
	touch $@

tools: ## what test/faults makes faults with
	@for p in strace mkfs.ext4 ip ss; do command -v $$p; done | wc -l | grep -q 4 || { apt-get update -qq && apt-get install -y -qq strace e2fsprogs iproute2; }

jms: test/jms/target/ready ## the JMS programs of test/jms and Qpid JMS itself

test/jms/target/ready: test/jms/pom.xml $(wildcard test/jms/src/main/java/oncemq/*.java)
	@command -v mvn >/dev/null && command -v javac >/dev/null || { apt-get update -qq && apt-get install -y -qq openjdk-17-jdk-headless maven; }
	cd test/jms && mvn -q -B package
	touch $@

test: setup unit interop ## all tests; sets everything up itself

unit: ## the tests of the module, with the race detector
	$(GO) vet ./...
	$(GO) test -race -timeout 20m ./...

interop: ## other people's clients and faults that need processes, against the real binary
	cd test && $(GO) vet ./... && ONCEMQ_SETUP=1 $(GO) test -count=1 -p 1 -timeout 30m ./...

faults: ## every row of docs/faults.md that needs real processes, disks and sockets; as root for most
	cd test && ONCEMQ_LONG=1 ONCEMQ_SOAK_MINUTES=1 $(GO) test -v -count=1 -timeout 90m ./faults

soak: ## the nemesis: faults by twos and threes, MINUTES long, as SEED says
	cd test && ONCEMQ_LONG=1 ONCEMQ_SOAK_MINUTES=$(MINUTES) ONCEMQ_SEED=$(SEED) $(GO) test -v -count=1 -timeout 0 -run Row104 ./faults

power: ## all three nodes lose their power at once, LOSSES times, under load
	cd test && ONCEMQ_LOSSES=$(LOSSES) $(GO) test -v -count=1 -timeout 0 -run Row38 ./faults

invariants: ## the tests with the costly checks of state switched on
	$(GO) test -tags invariants -timeout 20m ./internal/... .

lint: $(LINT) ## the linters of .golangci.yml
	$(LINT) run ./...
	cd test && ../$(LINT) run --config ../.golangci.yml ./...

$(LINT):
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

fmt: $(LINT) ## gofumpt and gci
	$(LINT) fmt ./...

sim: ## whole clusters under faults: SEEDS worlds from SEED on; SEEDS=1 prints one's transcript
	cd test && $(GO) test ./sim -run 'TestSeeds$$' -count=1 -timeout 0 -v -seeds $(SEEDS) -seed $(SEED) -jobs $(JOBS) -skip '$(SKIP)'

mutants: ## faults built in on purpose, each to be found by the simulator within BUDGET seeds; and by its interleavings
	$(GO) test -tags mutants ./internal/sim -run 'TestScenariosFind' -count=1
	$(GO) test -tags mutants ./internal/replica -run 'TestMembersFindMutants' -count=1
	$(GO) test -tags mutants ./internal/store -run 'TestMendFindsMutants' -count=1
	$(GO) test -tags mutants ./internal/store -run 'TestCrashImagesFind' -count=1 -timeout 0 -v
	cd test && $(GO) test -tags mutants ./sim -run 'Mutants$$' -count=1 -timeout 0 -v -budget $(BUDGET) -mutant '$(MUTANT)'

VERSION ?=
TAPES   := $(CURDIR)/$(CACHE)/replay
V3      := $(shell grep -qw bmi2 /proc/cpuinfo 2>/dev/null && grep -qw fma /proc/cpuinfo && grep -qw avx2 /proc/cpuinfo || echo -exec "'qemu-x86_64-static -cpu max'")
ARM     := $(if $(filter arm64 aarch64,$(shell uname -m)),,-exec qemu-aarch64-static)
AMD     := $(if $(filter x86_64 amd64,$(shell uname -m)),,-exec "qemu-x86_64-static -cpu max")

record: ## the recorded log of a release, VERSION: before its tag is set
	@test -n "$(VERSION)" || { echo "make record VERSION=v0.1.0"; exit 2; }
	$(GO) test ./internal/state -run 'TestRecord$$' -count=1 -record $(CURDIR)/internal/state/testdata/logs/$(VERSION).log.gz

replay: qemu ## the recorded logs of the releases, and one of now, on amd64, amd64 v3 and arm64: the same digests; and the next level's tests
	mkdir -p $(TAPES)
	$(GO) test ./internal/state -run 'TestRecord$$' -count=1 -record $(TAPES)/now.log.gz
	GOARCH=amd64 GOAMD64=v1 $(GO) test $(AMD) ./internal/state -run 'TestReplay$$' -count=1 -logs $(TAPES)
	GOARCH=amd64 GOAMD64=v3 $(GO) test $(AMD) $(if $(AMD),,$(V3)) ./internal/state -run 'TestReplay$$' -count=1 -logs $(TAPES)
	GOARCH=arm64 $(GO) test -vet=off $(ARM) ./internal/state -run 'TestReplay$$' -count=1 -logs $(TAPES)
	$(GO) test -tags nextlevel ./internal/state -run 'Level|Finalize|Next|Unknown|Replay' -count=1 -logs $(TAPES)

qemu: ## what runs the other architecture's tests
	@command -v qemu-aarch64-static >/dev/null && command -v qemu-x86_64-static >/dev/null || { apt-get update -qq && apt-get install -y -qq qemu-user-static; }

crash: ## power loss behind every write, sync and name of a node's directory, log and Pebble together: IMAGES of them from world SEED on
	$(GO) test ./internal/store -run 'TestCrashImages$$' -count=1 -timeout 0 -v -images $(IMAGES) -seed $(SEED)

check: lint unit invariants ## what a commit has to pass
	$(MAKE) fuzz SECONDS=10

amqp: ## docs/amqp.md: what a client may rely on, the tests that show it, and what becomes of them now
	cd test && $(GO) run ./rows

fuzz: ## every fuzz target in turn, SECONDS each
	@GO=$(GO) sh test/fuzz.sh $(SECONDS)

bench: build ## the bench table on three nodes of this machine
	bin/oncemq bench all

suites: build ## other people's suites, where they lie beside the project
	@sh test/suites.sh $(SHARED)/suites

clean:
	rm -rf bin $(CACHE) test/jms/target
