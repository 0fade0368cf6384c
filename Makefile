# rind: `make run` (build and show a sandbox), `make test` (everything that must pass), `make help`.
#
# One build directory per flavour, so that flavours never mix: build/rel (what `build/rind` links to), build/asan, build/tsan.
# Sources are found by directory: a new file in a room needs no change here.

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -ec
MAKEFLAGS   += --no-builtin-rules
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

FLAVOUR ?= rel
# Where scripts/deps puts a Node where the machine's own is too old.
export PATH := $(CURDIR)/tests/node/runtime/node_modules/.bin:$(PATH)
# V=1 shows the commands.
Q := $(if $(V),,@)
CC      ?= gcc
ifeq ($(origin CC),default)
CC      := gcc
endif
MUSL_CC ?= musl-gcc
AARCH64_CC ?= aarch64-linux-gnu-gcc
VERSION := 0.1.0
O       := build/$(FLAVOUR)
PREFIX  ?= /usr/local

# ---- flags ------------------------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wformat=2 -Wundef -Wvla -Wcast-qual -Wwrite-strings \
        -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wswitch-enum \
        -Wnull-dereference
# gcc-only warnings, left out for clang.
ifneq ($(findstring clang,$(CC)),clang)
WARN += -Wimplicit-fallthrough=5 -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wjump-misses-init
endif
STD    := -std=gnu17 -D_GNU_SOURCE -DRIND_VERSION='"$(VERSION)"'
WERROR ?= -Werror

FLAVOUR_CFLAGS_rel     := -O2 -g -fno-strict-aliasing -fno-common -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
                          -fstack-clash-protection -fcf-protection -fPIE
FLAVOUR_LDFLAGS_rel    := -pie -Wl,-z,relro,-z,now,-z,noexecstack
FLAVOUR_CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -fno-common -fPIE
FLAVOUR_LDFLAGS_asan   := -pie -fsanitize=address,undefined
FLAVOUR_CFLAGS_tsan    := -O1 -g -fsanitize=thread -fno-common -fPIE
FLAVOUR_LDFLAGS_tsan   := -pie -fsanitize=thread -Wl,--wrap=syscall
# Two checks of gcc 12's analyzer are off: it does not follow what a callback comes to own, nor a compound literal that is
# passed by its address. Leaks are LeakSanitizer's (make asan), uninitialised values the ordinary warnings'.
FLAVOUR_CFLAGS_analyze := -O1 -g -fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -fPIE
FLAVOUR_LDFLAGS_analyze := -pie
CFLAGS  := $(STD) $(WARN) $(WERROR) $(FLAVOUR_CFLAGS_$(FLAVOUR)) -MMD -MP -Irunner -Ishim
LDFLAGS := $(FLAVOUR_LDFLAGS_$(FLAVOUR))
RIND_LDFLAGS_rel := -static-pie
LINK_rel         := scripts/link

# The libraries are the distribution's; their static archives are linked where it ships them, because each shared object
# costs a start of `rind` 0.1 to 0.3 ms. So does libc in what is installed, position-independent all the same: 0.4 to 1 ms.
# Nothing of it is used that loads modules at run time (getpwnam, getaddrinfo, iconv): sys/users.h reads the host's files.
# That libraries could (libuv's os_homedir) is what scripts/link knows of; any other warning of the linker is an error.
# llhttp comes as C sources in Debian's node-llhttp. They are compiled from there, without our warnings, and in strict
# mode: what has two readings is an error.
LLHTTP     ?= /usr/share/llhttp
LLHTTP_INC ?= /usr/share/include/llhttp
LLHTTP_CPPFLAGS := -isystem $(LLHTTP_INC) -DLLHTTP_STRICT_MODE=1
# Its headers lie in a directory of their own.
NL_CPPFLAGS := -isystem /usr/include/libnl3
CFLAGS  += $(LLHTTP_CPPFLAGS) $(NL_CPPFLAGS)
LLHTTP_SRC := $(LLHTTP)/api.c $(LLHTTP)/http.c $(LLHTTP)/llhttp.c
LLHTTP_OBJ := $(LLHTTP_SRC:$(LLHTTP)/%.c=$O/obj/llhttp/%.o)

LIBS := -l:libext2fs.a -l:libcom_err.a -l:libnl-3.a -l:libuv_a.a -l:libldns.a -l:libssl.a -l:libcrypto.a -l:libjansson.a -l:libseccomp.a -l:libcap.a -l:libpcre2-8.a -lpthread -ldl -lm

# Of rind-rootfs alone. Only libarchive's reader for tar is used: its other formats, which need more libraries, are left out
# by the linker.
BUILDER_LIBS := -Wl,--wrap=_archive_entry_copy_pathname_l -Wl,--wrap=_archive_entry_copy_link_l \
                -l:libarchive.a -l:libzstd.a -l:libz.a -l:libcrypto.a

# Of rind-registry alone. The distribution has no complete static libcurl; what its archive refers to beyond OpenSSL belongs to
# protocols that are not spoken, and registry/absent.c stands in for it. So this program is static, too, and needs nothing of the
# host.
REGISTRY_LIBS := -l:libcurl.a -l:libssl.a -l:libcrypto.a -l:libjansson.a -lpthread -ldl -lm

# The static parts that run inside a sandbox. musl: small, no NSS, no locale, no dlopen.
SHIM_CFLAGS  := $(STD) -Wall -Wextra -Wshadow -Wconversion -Wformat=2 -Wundef -Wvla -Wcast-qual -Wstrict-prototypes \
                -Wmissing-prototypes $(WERROR) -Os -g -fno-strict-aliasing -fno-common -fstack-protector-strong \
                -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -MMD -MP -Ishim
# musl has none of the kernel's headers.
KERNEL_HEADERS := -idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu
SHIM_LDFLAGS := -static -Wl,--gc-sections -Wl,-z,relro,-z,noexecstack -Wl,--build-id=none

# ---- what is built ----------------------------------------------------------------------------------------------
RUNNER_SRC := $(wildcard runner/*/*.c runner/*/*/*.c)
PROTO_SRC  := $(wildcard shim/proto/*.c)
INIT_SRC   := $(wildcard shim/init/*.c)
FILES_SRC  := $(wildcard shim/files/*.c)
BUILDER_SRC := $(wildcard rootfs-builder/*.c)
REGISTRY_SRC := $(wildcard registry/*.c)
# What rind-rootfs shares with the runner and the shim.
BUILDER_SHARED := runner/base/err.c runner/base/file.c runner/base/log.c runner/image/worker-proto.c $(PROTO_SRC)
# What rind-registry shares with them.
REGISTRY_SHARED := $(addprefix runner/,$(addsuffix .c,base/address base/base64 base/budget base/buf base/err base/file base/log base/number \
    base/rfc3339 base/strtab image/manifest image/reference image/registry-proto json/decode json/parse policy/internet policy/net-rule))

RUNNER_OBJ_tsan := $O/obj/tests/tsan/syscall.o
RUNNER_OBJ := $(RUNNER_SRC:%.c=$O/obj/%.o) $(PROTO_SRC:%.c=$O/obj/%.o) $(RUNNER_OBJ_$(FLAVOUR))
EMBED_OBJ  := $O/obj/runner/image/embed.o
LIBRUNNER  := $O/librunner.a

# Test and fuzz programs: one file each.
UNIT_BIN := $(patsubst tests/unit/test-%.c,$O/unit/test-%,$(wildcard tests/unit/test-*.c))
# Modules of the shim and of init that their unit tests link beside librunner (everything but the mains).
SHIM_TEST_OBJ := $(patsubst %.c,$O/obj/%.o,$(filter-out %/main.c,$(FILES_SRC) $(INIT_SRC)))
BUILDER_TEST_OBJ := $(patsubst %.c,$O/obj/%.o,$(filter-out %/main.c,$(BUILDER_SRC)))
# Of rind-registry what is pure: the rest is driven as a program.
REGISTRY_PURE := $(patsubst %,registry/%.c,challenge document header job lookup-message platform refusal token url)
REGISTRY_TEST_OBJ := $(REGISTRY_PURE:%.c=$O/obj/%.o)
FUZZ_BIN := $(patsubst tests/fuzz/fuzz-%.c,build/fuzz/fuzz-%,$(wildcard tests/fuzz/fuzz-*.c))

.PHONY: all run check test test-browser test-wrangler test-clients deps lint asan tsan analyze tidy cppcheck fuzz bench soak install clean distclean help unit integ \
        format builder-objects
all: $O/rind build/rind build/rind.1 build/rind.bash build/rind.spdx.json build/registry/rind-registry

help:
	@sed -n 's/^## //p' Makefile

deps:
	@scripts/deps build test

build/rind: $O/rind
	@mkdir -p build && ln -sfn $(FLAVOUR)/rind $@

# The manual page is made from the option tables, by the program that has them.
build/rind.1: $O/rind
	$O/rind help --man >$@.tmp && mv $@.tmp $@

# So is the completion.
build/rind.bash: $O/rind
	$O/rind help --bash-completion >$@.tmp && mv $@.tmp $@

# What is in it, as the linker's maps tell: it answers which release has a library with a hole.
build/rind.spdx.json: $O/rind scripts/sbom
	@scripts/sbom $(VERSION) $@ rind=$O/rind.map rind-rootfs=build/builder/rind-rootfs.map rind-init=build/shim/rind-init.map \
	    sandbox-shim=build/shim/sandbox-shim.map

$O/rind: $O/obj/runner/main.o $(LIBRUNNER) $(EMBED_OBJ)
	$(Q)$(LINK_$(FLAVOUR)) $(CC) $(LDFLAGS) $(RIND_LDFLAGS_$(FLAVOUR)) -Wl,-Map=$@.map -o $@ $(filter %.o,$^) $(LIBRUNNER) $(LIBS)

$(LIBRUNNER): $(RUNNER_OBJ) $(LLHTTP_OBJ)
	@rm -f $@ && ar rcs $@ $^

$O/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c -o $@ $<

$O/obj/llhttp/%.o: $(LLHTTP)/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(STD) $(filter-out -fanalyzer,$(FLAVOUR_CFLAGS_$(FLAVOUR))) -w $(LLHTTP_CPPFLAGS) -MMD -MP -c -o $@ $<

# The shipped policies are inside (.incbin, which -MMD does not see).
$O/obj/runner/policy/builtin.o $O/obj/runner/policy/client.o $O/obj/runner/policy/host-rootfs.o: $(wildcard policies/*.json)
$O/obj/runner/api/native/openapi.o: docs/openapi.json

# ---- the parts carried inside the binary ------------------------------------------------------------------------
build/shim/rind-init: $(INIT_SRC:%.c=build/shim/obj/%.o) $(PROTO_SRC:%.c=build/shim/obj/%.o)
	$(Q)$(MUSL_CC) $(SHIM_LDFLAGS) -Wl,-Map=$@.map -o $@ $^ && strip $@

# Under 64 KiB, because it is read at each file operation: code and constants share their pages.
build/shim/sandbox-shim: $(FILES_SRC:%.c=build/shim/obj/%.o) $(PROTO_SRC:%.c=build/shim/obj/%.o)
	$(Q)$(MUSL_CC) $(SHIM_LDFLAGS) -Wl,-z,noseparate-code -Wl,-Map=$@.map -o $@ $^ && strip $@

# The same for aarch64, by the distribution's cross compiler, to test that nothing depends on x86-64. The distribution has
# no musl for a foreign architecture: this one is linked with glibc. On an aarch64 machine the rule above makes the shim.
build/shim-aarch64/sandbox-shim: $(FILES_SRC:%.c=build/shim-aarch64/obj/%.o) $(PROTO_SRC:%.c=build/shim-aarch64/obj/%.o)
	$(AARCH64_CC) $(SHIM_LDFLAGS) -o $@ $^

build/shim-aarch64/obj/%.o: %.c
	@mkdir -p $(@D)
	$(AARCH64_CC) $(SHIM_CFLAGS) -c -o $@ $<

build/shim/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(SHIM_CFLAGS) $(KERNEL_HEADERS) -c -o $@ $<

# A program of its own, static as what carries it, of one flavour: what is confined is not instrumented (its modules are, in
# their unit tests).
BUILDER_CFLAGS  := $(STD) $(WARN) $(WERROR) $(FLAVOUR_CFLAGS_rel) -ffunction-sections -fdata-sections -MMD -MP -Irunner -Ishim -Irootfs-builder
BUILDER_LDFLAGS := $(FLAVOUR_LDFLAGS_rel) -static-pie -Wl,--gc-sections -Wl,--build-id=none

build/builder/rind-rootfs: $(BUILDER_SRC:%.c=build/builder/obj/%.o) $(BUILDER_SHARED:%.c=build/builder/obj/%.o)
	$(Q)$(CC) $(BUILDER_LDFLAGS) -Wl,-Map=$@.map -o $@ $^ $(BUILDER_LIBS) && strip $@

# The same with parts that an archive has taken over, for tests.
SUBVERTED_OBJ   := $(patsubst %.c,build/builder/obj/%.o,$(BUILDER_SRC) tests/subverted/parts.c $(BUILDER_SHARED))
SUBVERTED_WRAPS := $(foreach f,codec unpack split pack,-Wl,--wrap=part_$f)
build/builder/rind-rootfs-subverted: $(SUBVERTED_OBJ)
	$(Q)$(CC) $(BUILDER_LDFLAGS) $(SUBVERTED_WRAPS) -o $@ $^ $(BUILDER_LIBS)

build/builder/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(BUILDER_CFLAGS) -c -o $@ $<

# So is this one.
REGISTRY_CFLAGS  := $(STD) $(WARN) $(WERROR) $(FLAVOUR_CFLAGS_rel) -ffunction-sections -fdata-sections -MMD -MP -Irunner -Ishim -Iregistry
REGISTRY_LDFLAGS := $(FLAVOUR_LDFLAGS_rel) -static-pie -Wl,--gc-sections -Wl,--build-id=none

build/registry/rind-registry: $(REGISTRY_SRC:%.c=build/registry/obj/%.o) $(REGISTRY_SHARED:%.c=build/registry/obj/%.o)
	$(Q)scripts/link $(CC) $(REGISTRY_LDFLAGS) -o $@ $^ $(REGISTRY_LIBS) && strip $@

build/registry/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(REGISTRY_CFLAGS) -c -o $@ $<

build/rootfs.tar: rootfs-builder/default-rootfs rootfs-builder/ustar.py
	@mkdir -p build
	rootfs-builder/default-rootfs $@

build/base.tar: rootfs-builder/base-layer rootfs-builder/ustar.py build/shim/sandbox-shim
	rootfs-builder/base-layer build/shim/sandbox-shim $@

build/docker.tar: rootfs-builder/docker-layer rootfs-builder/ustar.py
	@mkdir -p build
	rootfs-builder/docker-layer $@

# A layer's name is the SHA-256 of its archive, computed here, so that rind itself needs to hash nothing.
$(EMBED_OBJ): runner/image/embed.S build/shim/rind-init build/shim/sandbox-shim build/builder/rind-rootfs build/rootfs.tar build/base.tar build/docker.tar
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DROOT_ID="$$(sha256sum build/rootfs.tar | cut -c 1-64)" \
	    -DBASE_ID="$$(sha256sum build/base.tar | cut -c 1-64)" -DDOCKER_ID="$$(sha256sum build/docker.tar | cut -c 1-64)" -c -o $@ $<

# ---- tests ------------------------------------------------------------------------------------------------------
$O/unit/test-%: tests/unit/test-%.c $(SHIM_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests/unit $(LDFLAGS) -o $@ $< $(SHIM_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ) $(LIBS)

# Those of rind-rootfs link its modules, and not the shim's.
.SECONDARY: $(BUILDER_TEST_OBJ)
$O/unit/test-rootfs-%: tests/unit/test-rootfs-%.c $(BUILDER_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests/unit -Irootfs-builder $(LDFLAGS) -Wl,--gc-sections -o $@ $< $(BUILDER_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ) \
	    $(BUILDER_LIBS) $(LIBS)

# Those of rind-registry link its pure modules.
.SECONDARY: $(REGISTRY_TEST_OBJ)
$O/unit/test-registry-%: tests/unit/test-registry-%.c $(REGISTRY_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Itests/unit -Iregistry $(LDFLAGS) -Wl,--gc-sections -o $@ $< $(REGISTRY_TEST_OBJ) $(LIBRUNNER) $(EMBED_OBJ) $(LIBS)

# Runs it inside the sandboxes that it starts.
$O/unit/test-launcher-hostile: | build/payload

build/payload: $(wildcard tests/payload/*.c) tests/payload/payload.h
	@mkdir -p build
	$(Q)$(MUSL_CC) $(STD) -Wall -Wextra $(WERROR) -O2 -static -o $@ $(filter %.c,$^)

# Of an image that has no libc.
build/go-sidecar: tests/payload/sidecar.go
build/go-limits: tests/payload/limits.go
build/go-copy: tests/payload/go-copy.go
build/go-sidecar build/go-limits build/go-copy:
	@mkdir -p build
	$(Q)GOCACHE=$(CURDIR)/build/go-cache GOFLAGS=-mod=mod GO111MODULE=off CGO_ENABLED=0 go build -o $@ $<

# Against the standard library as the distribution has compiled it: half a second. Linked with libc, whose resolver it does not use.
build/go-client: tests/payload/go-client.go
	@mkdir -p build
	$(Q)GOCACHE=$(CURDIR)/build/go-cache GOFLAGS=-mod=mod GO111MODULE=off go build -o $@ $<

# Compiled once for all targets, as an archive, of which each target takes what it needs.
FUZZ_CC  := clang $(STD) -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -Irunner -Ishim $(LLHTTP_CPPFLAGS) $(NL_CPPFLAGS)
FUZZ_OBJ := $(patsubst %.c,build/fuzz/obj/%.o,$(filter-out %/main.c,$(RUNNER_SRC) $(PROTO_SRC) $(FILES_SRC) $(INIT_SRC)))

build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

build/fuzz/obj/runner/policy/builtin.o build/fuzz/obj/runner/policy/client.o build/fuzz/obj/runner/policy/host-rootfs.o: $(wildcard policies/*.json)

build/fuzz/librind.a: $(FUZZ_OBJ)
	@rm -f $@ && ar rcs $@ $^

build/fuzz/libbuilder.a: $(patsubst %.c,build/fuzz/obj/%.o,$(filter-out %/main.c,$(BUILDER_SRC)))
	@rm -f $@ && ar rcs $@ $^

build/fuzz/libregistry.a: $(REGISTRY_PURE:%.c=build/fuzz/obj/%.o)
	@rm -f $@ && ar rcs $@ $^

build/fuzz/fuzz-registry-%: tests/fuzz/fuzz-registry-%.c build/fuzz/libregistry.a build/fuzz/librind.a $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -Iregistry -fsanitize=fuzzer -MMD -MP -MF $@.d -o $@ $< $(LLHTTP_SRC) build/fuzz/libregistry.a build/fuzz/librind.a \
	    $(EMBED_OBJ) $(LIBS)

build/fuzz/fuzz-rootfs-%: tests/fuzz/fuzz-rootfs-%.c build/fuzz/libbuilder.a build/fuzz/librind.a $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -Irootfs-builder -fsanitize=fuzzer -MMD -MP -MF $@.d -Wl,--gc-sections -o $@ $< $(LLHTTP_SRC) build/fuzz/libbuilder.a \
	    build/fuzz/librind.a $(EMBED_OBJ) $(BUILDER_LIBS) $(LIBS)
# It runs this as the launcher's worker.
$O/unit/test-launcher-subverted: | build/builder/rind-rootfs-subverted

build/fuzz/fuzz-%: tests/fuzz/fuzz-%.c build/fuzz/librind.a $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer -MMD -MP -MF $@.d -o $@ $< $(LLHTTP_SRC) build/fuzz/librind.a $(EMBED_OBJ) $(LIBS)

builder-objects: $(BUILDER_TEST_OBJ) $(REGISTRY_SRC:%.c=$O/obj/%.o)

unit: $(UNIT_BIN)
# What the end-to-end tests run beside rind, of whatever flavour that is.
INTEG_NEEDS := build/payload build/go-client build/go-sidecar build/go-limits build/go-copy build/shim-aarch64/sandbox-shim \
               build/builder/rind-rootfs-subverted build/registry/rind-registry
integ: all $(INTEG_NEEDS)

## make run        install what is missing, build, and show a sandbox beside the host
run:
	@scripts/deps build
	@[ -e build/rind ] || echo "building rind, which takes some minutes the first time"
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@scripts/show build/rind

## make test       install what is missing, build, and pass every test
test: deps
	@$(MAKE) --no-print-directory -j$$(nproc) all unit integ
	@scripts/run-tests $O

## make check      for every day: unit tests and a smoke of each area, under a minute once built
check:
	@$(MAKE) --no-print-directory -j$$(nproc) all unit integ
	@scripts/run-tests $O --check

## make test-browser  a preview URL in headless Chromium, with a development server in the sandbox (installs both)
test-browser:
	@scripts/deps build browser
	@$(MAKE) --no-print-directory -j$$(nproc) all build/payload
	@cd tests/browser && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --ignore-scripts; }
	@tests/browser/test-browser

## make lint       layers, child safety, formatting, shellcheck, sizes
lint:
	@scripts/lint

## make asan       the same tests under ASan and UBSan
asan: deps
	@$(MAKE) --no-print-directory -j$$(nproc) FLAVOUR=asan build/asan/rind unit $(INTEG_NEEDS)
	@RIND_BIN=build/asan/rind scripts/run-tests build/asan

## make tsan       unit tests under TSan, and the daemon where it uses its thread pool
# Which is for images (images/images.c) and for syncing its state (sandbox/store-disk.c).
TSAN_INTEG := integ/test-api-images,integ/test-images,integ/test-snapshots,integ/test-named-volumes,integ/test-state
tsan: deps
	@$(MAKE) --no-print-directory -j$$(nproc) FLAVOUR=tsan build/tsan/rind unit $(INTEG_NEEDS)
	@RIND_BIN=build/tsan/rind scripts/run-tests build/tsan --only build/tsan/unit/,$(TSAN_INTEG)

## make analyze    gcc -fanalyzer over everything, warnings are errors
analyze: deps
	@$(MAKE) --no-print-directory -j$$(nproc) FLAVOUR=analyze build/analyze/rind builder-objects

## make tidy       clang-tidy; make cppcheck: cppcheck
tidy: deps
	@scripts/tidy
cppcheck: deps
	@cppcheck -q --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --std=c11 \
	    --suppressions-list=scripts/cppcheck-suppressions --library=scripts/cppcheck.cfg \
	    -Irunner -Ishim -Irootfs-builder -Iregistry runner shim rootfs-builder registry

## make fuzz       every fuzz target for FUZZ_SECONDS (60) each, from its seeds
fuzz: deps
	@$(MAKE) --no-print-directory -j$$(nproc) $(FUZZ_BIN)
	@scripts/run-fuzz $(FUZZ_BIN)

## make bench      figures beside the floor and the peers, build/bench.json
bench:
	@scripts/deps build test bench docker
	@$(MAKE) --no-print-directory -j$$(nproc) all build/payload
	@tests/bench/run

## make test-wrangler  wrangler dev, unmodified, on rind; the packages come from npm
test-wrangler: all
	@scripts/workerd-packages --wrangler
	@RIND_BIN=$(CURDIR)/$O/rind node --test tests/workerd/test-wrangler.mjs

## make test-clients  real clients of Docker's API and their own suites on rind, as a table; they come from npm and the distribution
test-clients:
	@scripts/deps build test clients
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@RIND_BIN=$(CURDIR)/$O/rind tests/clients/run $(SUITES)

## make soak       the long loops that make test leaves out
soak: all build/payload
	@scripts/run-tests $O --soak

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

## make install    binary, man page, systemd units (PREFIX=/usr/local, DESTDIR=)
install: all
	@scripts/install "$(DESTDIR)" "$(PREFIX)"

## make clean      what was built; make distclean: what was installed for it, too
clean:
	rm -rf build clients/node/dist clients/node/src/api-types.ts
distclean: clean
	rm -rf clients/node/node_modules tests/bench/node/node_modules

# What tests/clients unpacks has files of this name that are no rules.
-include $(shell [ -d build ] && find build -path build/clients -prune -o -type f -name '*.d' -print)
