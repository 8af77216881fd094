# make [ONEDNN=0|1] [DOUBLE=0|1] [DEBUG=0|1] [SAN=address,undefined|thread]    ./darknet
#
# make demo         train with and without [itra] on Fashion-MNIST, compare, plot
# make test         everything that continuous integration runs
# make bench        how fast, against PyTorch and Debian's darknet where they are installed
# make golden       every layer against Debian's darknet          make oracle-cfgs   classifier cfgs, forward
# make fuzz         the fuzzers, a minute each                    make lint          rules a compiler does not check
#
# Variants never mix: objects live in build/<variant>/.

ONEDNN ?= 1
DOUBLE ?= 0
DEBUG  ?= 0
SAN    ?=
WERROR ?= 0

ifeq ($(DOUBLE),1)
override ONEDNN := 0
endif

# ---- nothing below needs changing for an ordinary build ------------------------------------------------------------

VARIANT := $(if $(filter 1,$(DOUBLE)),double,float)$(if $(filter 0,$(ONEDNN)),-ref)$(if $(filter 1,$(DEBUG)),-debug)$(if $(SAN),-$(SAN))
B       := build/$(VARIANT)

BACKENDS := $(if $(filter 1,$(ONEDNN)),cpu) ref
DECODERS := stb
LAYERS   := $(sort $(patsubst src/layers/%.c,%,$(wildcard src/layers/*.c)))
SRC      := $(sort $(wildcard src/core/*.c src/net/*.c src/data/*.c src/train/*.c src/backend/*.c) \
            $(LAYERS:%=src/layers/%.c) $(foreach b,$(BACKENDS),$(wildcard src/backend/$(b)/*.c)) \
            $(foreach d,$(DECODERS),$(wildcard src/data/decoders/$(d).c*)))
APP      := $(sort $(wildcard src/*.c src/cli/*.c))
LIB_OBJ  := $(SRC:%.c=$(B)/%.o)
APP_OBJ  := $(APP:%.c=$(B)/%.o)

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
          $(if $(filter 1,$(WERROR)),-Werror)
OPT    := $(if $(filter 1,$(DEBUG)),-O1 -g,-O2 -g)
CFLAGS ?=
ALL_CFLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(OPT) $(WARN) -fno-common -pthread -fopenmp -MMD -MP -Isrc -Iinclude -I$(B) \
              $(if $(filter 1,$(DOUBLE)),-DREAL=double) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
LDLIBS := $(if $(filter 1,$(ONEDNN)),-ldnnl) -lz -lm -pthread -fopenmp $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

all: darknet

# The link follows the variant that was asked for last, whichever is newer.
darknet: $(B)/darknet FORCE
	@ln -sf $< $@

$(B)/darknet: $(APP_OBJ) $(LIB_OBJ)
	$(CC) -o $@ $^ $(LDLIBS)

# The folder is the registry: one LAYER(name), BACKEND(name), DECODER(name) line per file or folder. Rewritten when it changes.
$(B)/layers.inc: FORCE
	@mkdir -p $(B)
	@printf 'LAYER(%s)\n' $(LAYERS) > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/backends.inc: FORCE
	@mkdir -p $(B)
	@printf 'BACKEND(%s)\n' $(BACKENDS) > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(B)/decoders.inc: FORCE
	@mkdir -p $(B)
	@printf 'DECODER(%s)\n' $(DECODERS) > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# One plain line where a library is missing, before a compiler says it in fifty.
HEADERS := $(if $(filter 1,$(ONEDNN)),oneapi/dnnl/dnnl.h) stb/stb_image.h zlib.h
$(B)/headers:
	@for h in $(HEADERS); do echo "#include <$$h>" | $(CC) -E -x c - >/dev/null 2>&1 || \
	    { echo "make: $$h is missing: run scripts/deps.sh build$(if $(filter 1,$(ONEDNN)), (without oneDNN: make ONEDNN=0))" >&2; exit 1; }; done
	@mkdir -p $(B); touch $@

REGISTRIES := $(B)/layers.inc $(B)/backends.inc $(B)/decoders.inc
$(B)/src/%.o: src/%.c Makefile | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(B)/tests/%.o: tests/%.c Makefile | $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -c -o $@ $<

# ---- tests: each file is one program of its own ----------------------------------------------------------------------

names    = $(patsubst tests/%.c,%,$(wildcard tests/$(1)/*.c))
UNIT    := $(call names,unit) $(call names,layers) $(call names,train)
FAULTS  := $(call names,faults)

$(B)/tests/%: $(B)/tests/%.o $(LIB_OBJ)
	$(CC) -o $@ $^ -lcmocka $(LDLIBS)
$(B)/tests/faults/memory: LDLIBS += -Wl,--wrap=mem_alloc,--wrap=mem_text,--wrap=mem_free

# Set-up, every variant, every test: what .ci/run calls.
JOBS := $(shell nproc 2>/dev/null || echo 2)
test:
	@scripts/deps.sh build test
	@$(MAKE) -j$(JOBS) --no-print-directory darknet check-programs tests/bin/itra-golden
	@$(MAKE) -j$(JOBS) --no-print-directory DOUBLE=1 check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=thread build/float-thread/tests/unit/loader
	@scripts/lint.sh
	@tests/all.sh

check-programs: $(addprefix $(B)/tests/,$(UNIT) $(FAULTS) golden/itra golden/replay golden/cfgs fuzz/replay)

fuzz:
	@scripts/fuzz.sh

golden: darknet check-programs
	@tests/golden/run.sh $(B)

# Debian's classifier cfgs and ours, forward, in libdarknet and here: minutes, so not part of `make test`.
oracle-cfgs: darknet $(B)/tests/golden/cfgs
	@tests/golden/cfgs.sh $(B)

tests/bin/itra-golden: tests/golden/itra-golden.sh $(B)/tests/golden/itra FORCE
	@$(MAKE) --no-print-directory DOUBLE=1 build/double-ref/tests/golden/itra
	@mkdir -p $(@D)
	@cp $< $@

# ---- what it does and what it costs ----------------------------------------------------------------------------------

lint:
	@scripts/lint.sh
demo:
	@scripts/demo.sh
bench:
	@scripts/bench.sh

# Unlike the tests these need no cmocka.
$(B)/tests/bench/%: $(B)/tests/bench/%.o $(LIB_OBJ)
	$(CC) -o $@ $^ $(LDLIBS)

clean:
	rm -rf build darknet tests/bin

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d)
.PHONY: all test check-programs golden oracle-cfgs fuzz lint demo bench clean FORCE
.PRECIOUS: $(B)/tests/%.o
