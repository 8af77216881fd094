# make [GPU=0|1] [ONEDNN=0|1] [DOUBLE=0|1] [DEBUG=0|1] [SAN=address,undefined|thread]    ./darknet
#      [CUDA=/usr/local/cuda] [CUDNN=$CUDA] [CUDA_ARCH=all-major]     with GPU=1 (GPU=host: its kernels on the host, for tests)
#      [TURBOJPEG=0|1] [OPENCV=0|1]      who decodes JPEG; JPEG and PNG; stb_image does what is left
#
# make demo         train with and without [itra] on Fashion-MNIST, compare, plot
# make test         everything that continuous integration runs; with GPU=1, the same for the build for GPUs
# make bench        how fast, against PyTorch and Debian's darknet where they are installed
# make golden       every layer against Debian's darknet          make oracle-cfgs   classifier cfgs, forward
# make golden-torch whole nets against PyTorch, in full
# make fuzz         the fuzzers, a minute each                    make lint          rules a compiler does not check
#
# Variants never mix: objects live in build/<variant>/.

GPU    ?= 0
CUDA   ?= /usr/local/cuda
CUDNN  ?= $(CUDA)
CUDA_ARCH ?= all-major
ONEDNN ?= 1
DOUBLE ?= 0
DEBUG  ?= 0
SAN    ?=
WERROR ?= 0
COVERAGE ?= 0
OPENCV ?= 0
TURBOJPEG ?= 0

comma := ,
oops = $(error $(1)=$($(1)): expected $(2))
$(if $(filter-out 0 1 host,$(GPU)),$(call oops,GPU,0$(comma) 1 or host))
$(foreach v,ONEDNN DOUBLE DEBUG WERROR COVERAGE OPENCV TURBOJPEG,$(if $(filter-out 0 1,$($(v))),$(call oops,$(v),0 or 1)))

ifeq ($(DOUBLE),1)
override ONEDNN := 0
override GPU := 0
endif
ifeq ($(GPU),host)
override ONEDNN := 0
endif

# ---- nothing below needs changing for an ordinary build ------------------------------------------------------------

WITH    := $(if $(filter 1,$(GPU)),-cuda)$(if $(filter host,$(GPU)),-shim)$(if $(filter 0,$(ONEDNN)),-ref)$(if $(filter 1,$(TURBOJPEG)),-turbojpeg)$(if $(filter 1,$(OPENCV)),-opencv)
VARIANT := $(if $(filter 1,$(DOUBLE)),double,float)$(WITH)$(if $(filter 1,$(DEBUG)),-debug)$(if $(filter 1,$(COVERAGE)),-coverage)$(if $(SAN),-$(SAN))
B       := build/$(VARIANT)

BACKENDS := $(if $(filter 1 host,$(GPU)),cuda) $(if $(filter 1,$(ONEDNN)),cpu) ref
DECODERS := $(if $(filter 1,$(TURBOJPEG)),turbojpeg) $(if $(filter 1,$(OPENCV)),opencv) stb
LAYERS   := $(sort $(patsubst src/layers/%.c,%,$(wildcard src/layers/*.c)))
SRC      := $(sort $(wildcard src/core/*.c src/net/*.c src/data/*.c src/train/*.c src/backend/*.c) \
            $(LAYERS:%=src/layers/%.c) $(foreach b,$(BACKENDS),$(wildcard src/backend/$(b)/*.c)) \
            $(foreach d,$(DECODERS),$(wildcard src/data/decoders/$(d).c*)))
# What stands for the libraries of a GPU on a machine without one.
SHIMMED := $(if $(filter host,$(GPU)),$(notdir $(wildcard tests/shim/*.c)))
SRC     := $(filter-out $(SHIMMED:%=src/backend/cuda/%),$(SRC)) $(SHIMMED:%=tests/shim/%)
SRC     += $(if $(filter 1 host,$(GPU)),$(wildcard src/backend/cuda/*.cu))
APP      := $(sort $(wildcard src/*.c src/cli/*.c))
LIB_OBJ  := $(addprefix $(B)/,$(patsubst %.c,%.o,$(patsubst %.cpp,%.o,$(SRC:.cu=.cu.o))))
APP_OBJ  := $(APP:%.c=$(B)/%.o)

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
          $(if $(filter 1,$(WERROR)),-Werror)
OPT    := $(if $(filter 1,$(DEBUG)),-O1 -g,-O2 -g)
ifeq ($(COVERAGE),1) # a line of code for each line of source
override OPT := -O0 -g --coverage
override LDFLAGS += --coverage
endif
CFLAGS ?=
COMMON := $(OPT) -pthread -fopenmp -MMD -MP -Isrc -Iinclude -I$(B) $(if $(filter 1,$(DOUBLE)),-DREAL=double) \
          $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CFLAGS   := -std=c11 -D_POSIX_C_SOURCE=200809L $(WARN) -fno-common $(COMMON) $(CFLAGS)
ALL_CXXFLAGS := -std=c++17 $(filter-out %-prototypes,$(WARN)) $(COMMON) $(CXXFLAGS)
CUDA_DIRS  := $(sort $(wildcard $(CUDNN)/lib64 $(CUDNN)/lib $(CUDA)/lib64 $(CUDA)/lib))
CUDA_LIBS  := $(CUDA_DIRS:%=-L%) -l:libcudnn.so.9 -lcublas -lcudart_static -ldl -lrt -lstdc++ \
              $(CUDA_DIRS:%=-Wl$(comma)-rpath$(comma)%)
NVCC       := $(CUDA)/bin/nvcc
NVCC_FLAGS := -std=c++17 -arch=$(CUDA_ARCH) -O2 -lineinfo -Werror all-warnings -Xcompiler -Wall,-Wextra,-Wshadow,-Wconversion \
              -MMD -MP -Isrc -Iinclude -I$(B)
LDLIBS := $(if $(filter 1,$(GPU)),$(CUDA_LIBS)) $(if $(filter 1,$(ONEDNN)),-ldnnl) $(if $(filter 1,$(TURBOJPEG)),-lturbojpeg) \
          $(if $(filter 1,$(OPENCV)),-lopencv_imgcodecs -lopencv_core -lstdc++) \
          -lz -lm -pthread -fopenmp $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

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

# The folders and the card that a build for GPUs was made with: other ones make it anew.
TOOLKIT := $(if $(filter 1,$(GPU)),$(B)/toolkit)
$(B)/toolkit: FORCE
	@mkdir -p $(B)
	@echo '$(CUDA) $(CUDNN) $(CUDA_ARCH)' > $@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# One plain line where a library is missing, before a compiler says it in fifty.
OPENCV_INCLUDE ?= /usr/include/opencv4
HEADERS := $(if $(filter 1,$(GPU)),cuda_runtime_api.h cudnn.h cublas_v2.h) $(if $(filter 1,$(ONEDNN)),oneapi/dnnl/dnnl.h) stb/stb_image.h zlib.h $(if $(filter 1,$(TURBOJPEG)),turbojpeg.h) \
           $(if $(filter 1,$(OPENCV)),opencv2/imgcodecs.hpp)
SETS    := build$(if $(filter 1,$(TURBOJPEG)), turbojpeg)$(if $(filter 1,$(OPENCV)), opencv)
$(B)/headers: $(TOOLKIT)
	@$(if $(TOOLKIT),command -v $(NVCC) >/dev/null || { echo "make: $(NVCC) is missing: give the folder of CUDA$(comma) CUDA=$(CUDA)" >&2; exit 1; })
	@for h in $(HEADERS); do case $$h in cu*) as="$(CC) -x c -isystem $(CUDNN)/include -isystem $(CUDA)/include" ;; *.hpp) as="$(CXX) -x c++ -isystem $(OPENCV_INCLUDE)" ;; *) as="$(CC) -x c" ;; esac; \
	    echo "#include <$$h>" | $$as -E - >/dev/null 2>&1 || \
	    { case $$h in cu*) echo "make: $$h is missing: give the folders of CUDA and cuDNN, CUDA=$(CUDA) CUDNN=$(CUDNN)" >&2; exit 1 ;; esac; \
	      echo "make: $$h is missing: run scripts/deps.sh $(SETS)$(if $(filter 1,$(ONEDNN)), (without oneDNN: make ONEDNN=0))" >&2; exit 1; }; done
	@mkdir -p $(B); touch $@

REGISTRIES := $(B)/layers.inc $(B)/backends.inc $(B)/decoders.inc
$(B)/src/%.o: src/%.c Makefile | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(B)/src/%.o: src/%.cpp Makefile | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) -c -o $@ $<
ifeq ($(GPU),1)
$(filter $(B)/src/backend/cuda/%,$(LIB_OBJ)): $(TOOLKIT)
$(B)/src/backend/cuda/%.o: ALL_CFLAGS += -isystem $(CUDNN)/include -isystem $(CUDA)/include
$(B)/src/backend/cuda/%.cu.o: src/backend/cuda/%.cu Makefile | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -MF $(@:.o=.d) -c -o $@ $<
else
$(B)/src/backend/cuda/%.cu.o: src/backend/cuda/%.cu Makefile | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ -x c $<
endif
$(B)/src/data/decoders/opencv.o: ALL_CXXFLAGS += -isystem $(OPENCV_INCLUDE)
ifeq ($(TURBOJPEG),1) # the library itself does not tell
$(B)/src/data/decoders/turbojpeg.o: ALL_CFLAGS += -DTURBOJPEG_RELEASE='"$(shell pkg-config --modversion libturbojpeg 2>/dev/null)"'
endif
$(B)/tests/%.o: tests/%.c Makefile | $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -c -o $@ $<

# ---- tests: each file is one program of its own ----------------------------------------------------------------------

names    = $(patsubst tests/%.c,%,$(wildcard tests/$(1)/*.c))
UNIT    := $(filter-out unit/decoders,$(call names,unit)) $(call names,layers) $(call names,train)
FAULTS  := $(call names,faults)
# Of the cuda backend alone: where kernels run on the host, and where cuDNN is there to plan.
DEVICE  := $(if $(filter host,$(GPU)),cuda/orders cuda/faults)$(if $(filter 1,$(GPU)),cuda/plans)

$(B)/tests/%: $(B)/tests/%.o $(LIB_OBJ)
	$(CC) -o $@ $^ -lcmocka $(LDLIBS)
# The programs of tests/device/run.sh: the suites of the operations without cmocka, and one for CUDA's libraries alone.
$(B)/plain/%.o: tests/%.c Makefile | $(REGISTRIES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -Itests/device -c -o $@ $<
$(B)/plain/%: $(B)/plain/%.o $(LIB_OBJ)
	$(CC) -o $@ $^ $(LDLIBS)
$(B)/tests/device/%.o: ALL_CFLAGS += -isystem $(CUDA)/include
$(B)/tests/device/%: $(B)/tests/device/%.o
	$(CC) -o $@ $^ $(LDLIBS)
$(B)/tests/faults/memory: LDLIBS += -Wl,--wrap=mem_alloc,--wrap=mem_text,--wrap=mem_free

# Set-up, every variant, every test: what .ci/run calls.
JOBS := $(shell nproc 2>/dev/null || echo 2)
ifeq ($(GPU),1) # the build for GPUs: what needs one is skipped where there is none
test:
	@scripts/deps.sh build test
	@$(MAKE) -j$(JOBS) --no-print-directory check-device
	@tests/all.sh gpu
else
test:
	@scripts/deps.sh build test turbojpeg opencv
	@$(MAKE) -j$(JOBS) --no-print-directory darknet check-programs tests/bin/itra-golden
	@$(MAKE) -j$(JOBS) --no-print-directory DOUBLE=1 check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=thread build/float-thread/tests/unit/loader
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined ONEDNN=0 TURBOJPEG=1 check-images
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined ONEDNN=0 OPENCV=1 check-images
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined GPU=host check-device
	@scripts/lint.sh
	@tests/all.sh
endif

check-programs: $(addprefix $(B)/tests/,$(UNIT) $(FAULTS) $(DEVICE) golden/itra golden/replay golden/cfgs torch/replay fuzz/replay)

# Of a build with GPU=1, or with its kernels on the host.
DEVICE_SUITES := unit/backends layers/parity
check-device: $(B)/darknet $(DEVICE_SUITES:%=$(B)/tests/%) $(DEVICE_SUITES:%=$(B)/plain/%) $(DEVICE:%=$(B)/tests/%) $(B)/tests/bench/step \
              $(if $(filter 1,$(GPU)),$(B)/tests/device/ceilings)

# What decodes images, in each variant of it.
check-images: $(B)/darknet $(B)/tests/unit/image $(B)/tests/unit/decoders

fuzz:
	@scripts/fuzz.sh

golden: darknet check-programs
	@tests/golden/run.sh $(B)

# Debian's classifier cfgs and ours, forward, in libdarknet and here: minutes, so not part of `make test`.
oracle-cfgs: darknet $(B)/tests/golden/cfgs
	@tests/golden/cfgs.sh $(B)

# The training steps of tests/torch, every tensor in full against PyTorch as it runs: minutes, so not part of `make test`.
golden-torch:
	@scripts/deps.sh bench
	@$(MAKE) --no-print-directory build/float/tests/torch/replay
	@$(MAKE) --no-print-directory DOUBLE=1 build/double-ref/tests/torch/replay
	@OMP_WAIT_POLICY=passive /usr/bin/python3 tests/torch/golden.py live

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

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d $(B)/plain/*/*.d)
.PHONY: all test check-programs check-device check-images golden oracle-cfgs golden-torch fuzz lint demo bench clean FORCE
.PRECIOUS: $(B)/tests/%.o $(B)/plain/%.o
