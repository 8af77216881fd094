# make [GPU=0|1] [ONEDNN=0|1] [DOUBLE=0|1] [DEBUG=0|1] [SAN=address,undefined|thread]    ./darknet
#      [ONEDNN_ROOT=DIR]     oneDNN from DIR/include and DIR/lib instead of the system's
#      [CUDA=/usr/local/cuda] [CUDNN=$CUDA] [CUDA_ARCH=all-major]     with GPU=1 (GPU=host: its kernels on the host, for tests)
#      [TURBOJPEG=0|1] [OPENCV=0|1]      who decodes JPEG; JPEG, PNG and videos; stb_image does what is left
#      [MPI=0|1]             training by several processes: mpirun -np N ./darknet classifier train ...
#      [NCCL=0|1] [NCCL_ROOT=DIR]        with GPU=1 and MPI=1, each on a GPU of its own; DIR/include and DIR/lib
# make lib          libdarknet-itra, static and shared, in build/<variant>/: include/darknet.h (for Python: pip install .)
# make install [PREFIX=/usr/local] [DESTDIR=] [LIBDIR=$PREFIX/lib]
#                   program, libraries, headers, cfgs and data files; with the options they were built with
#
# make demo         train with and without [itra] on Fashion-MNIST, compare, plot
# make test         everything that continuous integration runs; with GPU=1, the same for the build for GPUs
# make bench        how fast, against PyTorch and Debian's darknet where they are installed
# make golden       every layer against Debian's darknet          make oracle-cfgs   classifier cfgs, forward
# make golden-torch whole nets against PyTorch, in full
# make fuzz         the fuzzers, a minute each                    make lint          rules a compiler does not check
#
# Other options: WERROR=1, warnings are errors; V=1, commands are shown.
# Variants never mix: objects live in build/<variant>/. Within a variant other flags or other sources rebuild what they must.

GPU    ?= 0
CUDA   ?= /usr/local/cuda
CUDNN  ?= $(CUDA)
CUDA_ARCH ?= all-major
ONEDNN ?= 1
ONEDNN_ROOT ?=
DOUBLE ?= 0
DEBUG  ?= 0
SAN    ?=
WERROR ?= 0
COVERAGE ?= 0
V      ?= 0
OPENCV ?= 0
TURBOJPEG ?= 0
MPI ?= 0
NCCL ?= 0
NCCL_ROOT ?= $(wildcard build/nccl)
OPENCV_INCLUDE ?= /usr/include/opencv4
CFLAGS ?=
PREFIX ?= /usr/local
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include/darknet-itra
DATADIR ?= $(PREFIX)/share/darknet-itra
DOCDIR  ?= $(PREFIX)/share/doc/darknet-itra

comma := ,
refuse = $(error $(1)=$($(1)): expected $(2))
$(if $(filter-out 0 1 host,$(GPU)),$(call refuse,GPU,0$(comma) 1 or host))
$(foreach v,ONEDNN DOUBLE DEBUG WERROR COVERAGE OPENCV TURBOJPEG MPI NCCL,$(if $(filter-out 0 1,$($(v))),$(call refuse,$(v),0 or 1)))

ifeq ($(DOUBLE),1)
override ONEDNN := 0
override GPU := 0
endif
ifeq ($(GPU),host)
override ONEDNN := 0
endif
$(if $(filter 1,$(NCCL)),$(if $(filter 0,$(MPI) $(GPU)),$(error NCCL=1: expected GPU=1 and MPI=1 beside it$(comma) and not DOUBLE=1)))

# ---- nothing below needs changing for an ordinary build ------------------------------------------------------------

on      = $(if $(filter 1,$($(1))),$(2))
on_host = $(if $(filter host,$(GPU)),$(1))

VARIANT := $(if $(filter 1,$(DOUBLE)),double,float)$(call on,GPU,-cuda)$(call on_host,-shim)$(if $(filter 0,$(ONEDNN)),-ref,$(if $(ONEDNN_ROOT),-onednn))
VARIANT := $(VARIANT)$(call on,TURBOJPEG,-turbojpeg)$(call on,OPENCV,-opencv)$(call on,MPI,-mpi)$(call on,NCCL,-nccl)
VARIANT := $(VARIANT)$(call on,DEBUG,-debug)$(call on,COVERAGE,-coverage)$(if $(SAN),-$(SAN))
B       := build/$(VARIANT)

BACKENDS := $(call on,GPU,cuda) $(call on_host,cuda) $(call on,ONEDNN,cpu) ref
DECODERS := $(call on,TURBOJPEG,turbojpeg) $(call on,OPENCV,opencv) stb
CONNECTIONS := $(call on,MPI,mpi)
# The operations are the headers in src/backend/ops. Each is done by the file of its name in the backend's folder; where the cpu
# backend has none, by ref's, which computes in the same memory.
OPERATIONS := $(sort $(patsubst src/backend/ops/%.h,%,$(wildcard src/backend/ops/*.h)))
LEFT_OUT   := $(if $(filter 0,$(NCCL)),src/backend/cuda/sum.c tests/shim/nccl.c)
has         = $(filter-out $(LEFT_OUT),$(wildcard src/backend/$(1)/$(2).c src/backend/$(1)/$(2).cu))
provider    = $(if $(call has,$(1),$(2)),$(1),$(if $(filter cpu,$(1)),$(if $(call has,ref,$(2)),ref)))
LAYERS   := $(sort $(patsubst src/layers/%.c,%,$(wildcard src/layers/*.c)))
SRC      := $(sort $(wildcard src/core/*.c src/net/*.c src/data/*.c src/train/*.c src/api/*.c src/backend/*.c src/layers/*.c) \
            $(foreach b,$(BACKENDS),$(wildcard src/backend/$(b)/*.c src/backend/$(b)/*.cu)) \
            $(foreach d,$(DECODERS),$(wildcard src/data/decoders/$(d).c*)) \
            $(wildcard src/group/exchange.c) $(CONNECTIONS:%=src/group/%.c))
# On a machine without a GPU, stand-ins for the GPU's libraries: tests/shim/x.c for src/backend/cuda/x*.c.
SHIM     := $(call on_host,$(filter-out $(LEFT_OUT),$(wildcard tests/shim/*.c)))
SRC      := $(filter-out $(LEFT_OUT) $(foreach s,$(SHIM:tests/shim/%.c=%),$(wildcard src/backend/cuda/$(s)*.c)),$(SRC)) $(SHIM)
APP      := $(sort $(wildcard src/*.c src/cli/*.c))
LIB_OBJ  := $(addprefix $(B)/,$(patsubst %.c,%.o,$(patsubst %.cpp,%.o,$(SRC:.cu=.cu.o))))
APP_OBJ  := $(APP:%.c=$(B)/%.o)
COMPAT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard src/compat/*.c))

WARN   := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes $(call on,WERROR,-Werror)
OPT    := $(if $(filter 1,$(DEBUG)),-O1 -g,-O2 -g)
ifeq ($(COVERAGE),1) # a line of code for each line of source
override OPT := -O0 -g --coverage
override LDFLAGS += --coverage
endif
# oneDNN's folder; tests and installed programs find the library there.
ifneq ($(ONEDNN_ROOT),)
ONEDNN_INCLUDE := -isystem $(ONEDNN_ROOT)/include
ONEDNN_DIRS    := $(abspath $(wildcard $(ONEDNN_ROOT)/lib $(ONEDNN_ROOT)/lib64))
endif
# One set of objects for the program and both libraries: position-independent, which costs nothing where nothing that is not
# in a public header can be replaced from outside.
COMMON := $(OPT) -fPIC -fvisibility=hidden -pthread -fopenmp -MMD -MP -Isrc -Iinclude -I$(B) $(ONEDNN_INCLUDE) $(call on,DOUBLE,-DREAL=double) \
          $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
ALL_CFLAGS   := -std=c11 -D_POSIX_C_SOURCE=200809L $(WARN) -fno-common $(COMMON) $(CFLAGS)
ALL_CXXFLAGS := -std=c++17 $(filter-out %-prototypes,$(WARN)) $(COMMON) -isystem $(OPENCV_INCLUDE) $(CXXFLAGS)
# Kernels on the host.
ALL_KERNELFLAGS := -std=c++17 $(filter-out %-prototypes -Wpedantic,$(WARN)) -Wno-missing-field-initializers -fno-exceptions \
                   $(COMMON) $(CXXFLAGS)
ifeq ($(MPI),1)
MPI_INCLUDE  := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I mpi-c 2>/dev/null))
MPI_LIBS     := $(or $(shell pkg-config --libs mpi-c 2>/dev/null),-lmpi)
endif
NCCL_INCLUDE := $(call on,NCCL,$(if $(filter host,$(GPU)),-Itests/shim,$(NCCL_ROOT:%=-isystem %/include)))
CUDA_INCLUDE := $(NCCL_INCLUDE) -isystem $(CUDNN)/include -isystem $(CUDA)/include
CUDA_DIRS    := $(sort $(wildcard $(CUDNN)/lib64 $(CUDNN)/lib $(CUDA)/lib64 $(CUDA)/lib))
CUDA_LIBS    := $(CUDA_DIRS:%=-L%) -l:libcudnn.so.9 -lcublas -lcudart_static -ldl -lrt -lstdc++ \
                $(CUDA_DIRS:%=-Wl$(comma)-rpath$(comma)%)
NCCL_DIRS    := $(abspath $(wildcard $(NCCL_ROOT:%=%/lib)))
NCCL_LIBS    := $(call on,NCCL,$(NCCL_DIRS:%=-L%) -l:libnccl.so.2 $(NCCL_DIRS:%=-Wl$(comma)-rpath$(comma)%))
NVCC         := $(CUDA)/bin/nvcc
NVCC_FLAGS   := -std=c++17 -arch=$(CUDA_ARCH) -O2 -lineinfo $(call on,WERROR,-Werror all-warnings) \
                -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wshadow,-Wconversion,-Wno-missing-field-initializers -MMD -MP -Isrc -Iinclude -I$(B)
LDLIBS := $(call on,GPU,$(NCCL_LIBS) $(CUDA_LIBS)) $(call on,ONEDNN,$(ONEDNN_DIRS:%=-L%) $(ONEDNN_DIRS:%=-Wl$(comma)-rpath$(comma)%) -ldnnl) \
          $(call on,TURBOJPEG,-lturbojpeg) $(call on,OPENCV,-lopencv_videoio -lopencv_imgcodecs -lopencv_core -lstdc++) \
          $(MPI_LIBS) -lz -lm -pthread -fopenmp $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
# A line for each file; with V=1, the command.
quiet   = $(if $(filter 1,$(V)),,@)
say     = $(if $(quiet),@printf '%-4s %s\n' $(1) $@ && )
link    = $(call say,link)$(CC) -o $@ $(filter %.o,$^) $(LDLIBS)

all: darknet

# The link leads to the variant that was asked for last.
darknet: $(B)/darknet FORCE
	@ln -sf $< $@

$(B)/darknet: $(APP_OBJ) $(LIB_OBJ) $(B)/link.flags
	$(link)

# ---- libraries -----------------------------------------------------------------------------------------------------------

LIB     := libdarknet-itra
VERSION := $(shell sed -n 's/^\#define DN_VERSION "\(.*\)"/\1/p' include/darknet.h 2>/dev/null)
SONAME  := $(LIB).so.$(firstword $(subst ., ,$(VERSION)))
OBJCOPY ?= objcopy
LIBS    := $(addprefix $(B)/,$(LIB).a $(LIB).so.$(VERSION) $(SONAME) $(LIB).so)
HEADERS := $(wildcard include/*.h)

ifeq ($(GPU),host)
$(if $(filter lib lib-path install,$(MAKECMDGOALS)),$(error GPU=host is a build for tests: nothing to install; expected GPU=0 or 1))
endif
lib: $(LIBS)
lib-path: lib # for src/python/backend.py, which makes the wheel
	@echo $(B)/$(SONAME)

# Both libraries are made of one object for each public header, in which all names are local that it does not declare: hidden
# ones, and those of C++ templates, which are never hidden. The second, over the first, is linked only into programs that use it.
$(B)/$(LIB).o: $(LIB_OBJ)
$(B)/darknet-compat.o: $(COMPAT_OBJ)
PARTS   := $(addprefix $(B)/,$(LIB).o darknet-compat.o)
$(PARTS): $(B)/link.flags
	$(call say,link)$(CC) -r -nostdlib -Wl,--force-group-allocation -o $@ $(filter %.o,$^)
	$(quiet)$(OBJCOPY) --localize-hidden -w --localize-symbol='_Z*' $@
$(B)/$(LIB).a: $(PARTS)
	@rm -f $@
	$(call say,ar)$(AR) rcs $@ $^
# Names such as make_image are those of other libraries, too: calls within this one stay in it.
$(B)/$(LIB).so.$(VERSION): $(PARTS) $(B)/link.flags
	$(call say,link)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -o $@ $(PARTS) $(LDLIBS)
$(B)/$(SONAME) $(B)/$(LIB).so: $(B)/$(LIB).so.$(VERSION)
	ln -sf $(<F) $@

# ---- registries and flags ------------------------------------------------------------------------------------------------

# Files that make itself writes, and only when their text changes, so that what depends on them is rebuilt then: registries,
# with a line LAYER(name), BACKEND(name), DECODER(name) or OPERATION(name) for each file or folder, for each backend those with
# OPERATION(name, provider), and commands. text.FILE is for printf.
quoted = '$(subst ','\'',$(1))'
text.layers.inc    := 'LAYER(%s)\n' $(LAYERS)
text.backends.inc  := 'BACKEND(%s)\n' $(BACKENDS)
text.decoders.inc  := 'DECODER(%s)\n' $(DECODERS)
text.ops.inc       := 'OPERATION(%s)\n' $(OPERATIONS)
text.groups.inc    := $(if $(CONNECTIONS),'GROUP(%s)\n' $(CONNECTIONS),'\n')
$(foreach b,$(BACKENDS),$(eval text.ops_$(b).inc := 'OPERATION(%s, %s)\n' $(foreach o,$(OPERATIONS),$(addprefix $(o) ,$(call provider,$(b),$(o))))))
text.compile.flags := '%s\n' $(call quoted,$(CC) $(ALL_CFLAGS)) $(call on,OPENCV,$(call quoted,$(CXX) $(ALL_CXXFLAGS))) \
                      $(call on_host,$(call quoted,$(CXX) $(ALL_KERNELFLAGS)))
text.toolkit.flags := '%s\n' $(call quoted,$(NVCC) $(NVCC_FLAGS) $(CUDA_INCLUDE))
text.link.flags    := '%s\n' $(call quoted,$(CC) $(APP_OBJ) $(LIB_OBJ) $(COMPAT_OBJ) $(LDLIBS))
text.darknet-itra.pc := '%s\n' 'prefix=$(PREFIX)' 'libdir=$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))' \
                      'includedir=$(patsubst $(PREFIX)/%,$${prefix}/%,$(INCLUDEDIR))' '' 'Name: darknet-itra' \
                      'Description: Darknet-compatible image classifiers, with [itra]' 'Version: $(VERSION)' \
                      'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -ldarknet-itra' 'Libs.private: $(strip $(LDLIBS))'
REGISTRIES := $(addprefix $(B)/,layers.inc backends.inc decoders.inc ops.inc groups.inc $(BACKENDS:%=ops_%.inc))
$(REGISTRIES) $(addprefix $(B)/,compile.flags toolkit.flags link.flags darknet-itra.pc): FORCE
	@mkdir -p $(B)
	@printf $(text.$(@F)) > $@.$$$$; cmp -s $@.$$$$ $@ && rm $@.$$$$ || mv $@.$$$$ $@

# Where a library is missing, one plain line instead of fifty of the compiler's.
need = @for h in $(2); do echo "\#include <$$h>" | $(1) -E - >/dev/null 2>&1 || { echo "make: $$h is missing: $(3)" >&2; exit 1; }; done
TOOLKIT := $(call on,GPU,$(B)/toolkit.flags)
$(B)/headers: $(B)/compile.flags $(TOOLKIT)
	@$(CC) $(CFLAGS) -x c -E /dev/null >/dev/null || { echo "make: the compiler does not run: see CC and CFLAGS" >&2; exit 1; }
	$(call on,GPU,@command -v $(NVCC) >/dev/null || { echo "make: $(NVCC) is missing: give the folder of CUDA$(comma) CUDA=$(CUDA)" >&2; exit 1; })
	$(call need,$(CC) $(CFLAGS) -x c $(CUDA_INCLUDE),$(call on,GPU,cuda_runtime_api.h cudnn.h cublas_v2.h),give the folders of CUDA and cuDNN$(comma) CUDA=$(CUDA) CUDNN=$(CUDNN))
	$(call need,$(CC) $(CFLAGS) $(ONEDNN_INCLUDE) -x c,$(call on,ONEDNN,oneapi/dnnl/dnnl.h),run scripts/deps.sh build (without oneDNN: make ONEDNN=0))
	$(call need,$(CC) $(CFLAGS) -x c,stb/stb_image.h zlib.h,run scripts/deps.sh build)
	$(call need,$(CC) $(CFLAGS) $(MPI_INCLUDE) -x c,$(call on,MPI,mpi.h),run scripts/deps.sh mpi)
	$(call need,$(CC) $(CFLAGS) $(CUDA_INCLUDE) -x c,$(call on,GPU,$(call on,NCCL,nccl.h)),run scripts/deps.sh nccl or give its folder$(comma) NCCL_ROOT=DIR)
	$(call need,$(CC) $(CFLAGS) -x c,$(call on,TURBOJPEG,turbojpeg.h),run scripts/deps.sh turbojpeg)
	$(call need,$(CXX) $(CXXFLAGS) -x c++ -isystem $(OPENCV_INCLUDE),$(call on,OPENCV,opencv2/imgcodecs.hpp opencv2/videoio.hpp),run scripts/deps.sh opencv)
	@touch $@

$(B)/%.o: %.c $(B)/compile.flags | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(call say,cc)$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(B)/%.o: %.cpp $(B)/compile.flags | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(call say,c++)$(CXX) $(ALL_CXXFLAGS) -c -o $@ $<
ifeq ($(GPU),1)
$(filter $(B)/src/backend/cuda/%,$(LIB_OBJ)): $(B)/toolkit.flags
$(B)/src/backend/cuda/%.o: ALL_CFLAGS += $(CUDA_INCLUDE)
$(B)/%.cu.o: %.cu | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(call say,nvcc)$(NVCC) $(NVCC_FLAGS) -MF $(@:.o=.d) -c -o $@ $<
else
$(B)/%.cu.o: %.cu $(B)/compile.flags | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(call say,c++)$(CXX) $(ALL_KERNELFLAGS) -c -o $@ -x c++ $<
endif
$(B)/src/backend/cuda/sum.o: ALL_CFLAGS += $(NCCL_INCLUDE)
$(B)/src/group/mpi.o $(B)/tests/shim/nccl.o: ALL_CFLAGS += $(MPI_INCLUDE)
ifeq ($(TURBOJPEG),1) # the library itself does not tell
$(B)/src/data/decoders/turbojpeg.o: ALL_CFLAGS += -DTURBOJPEG_RELEASE='"$(shell pkg-config --modversion libturbojpeg 2>/dev/null)"'
endif

# ---- installation ------------------------------------------------------------------------------------------------------

# By name: cfg/ and data/ may hold files of the user's own.
CFGS    := demo qmnist-lenet $(addprefix fmnist-,conv5 conv5-quarter lenet) $(addprefix kmnist-,conv5 lenet) \
           $(addprefix cifar10-,mobilenetv2 resnet18 vgg13) $(addprefix cifar100-,mobilenetv2 resnet101 resnet18 vgg13) \
           $(addprefix stl10-,mobilenetv2 resnet18 vgg13) $(addprefix imagenet-,resnet18 resnet50)
SETS    := cifar10 cifar100 fmnist fmnist-5000 imagenet kmnist qmnist stl10
NAMES   := cifar10 cifar100 digits fmnist kmnist stl10
SHARED  := $(CFGS:%=cfg/%.cfg) $(SETS:%=data/%.data) $(NAMES:%=data/%.names) \
           $(wildcard scripts/get*) scripts/imagenet-devkit.py scripts/deps.sh

# Paths in installed .data files are absolute, so that they hold from any folder; scripts/get-NAME.sh beside them fill them.
install: $(B)/darknet $(LIBS) $(B)/darknet-itra.pc
	install -D -m 755 $< "$(DESTDIR)$(BINDIR)/darknet"
	install -D -m 644 -t "$(DESTDIR)$(INCLUDEDIR)" $(HEADERS)
	install -D -m 644 -t "$(DESTDIR)$(LIBDIR)" $(B)/$(LIB).a $(B)/$(LIB).so.$(VERSION)
	cp -P $(B)/$(SONAME) $(B)/$(LIB).so "$(DESTDIR)$(LIBDIR)"
	install -D -m 644 -t "$(DESTDIR)$(LIBDIR)/pkgconfig" $(B)/darknet-itra.pc
	for f in $(SHARED); do \
	    if [ -x $$f ]; then mode=755; else mode=644; fi; \
	    install -D -m $$mode $$f "$(DESTDIR)$(DATADIR)/$$f" || exit; done
	cd "$(DESTDIR)$(DATADIR)" && sed -i 's|=data/|=$(DATADIR)/data/|' $(filter %.data,$(SHARED))
	install -D -m 644 -t "$(DESTDIR)$(DOCDIR)" README.md LICENSE
uninstall: # leaves what others put into the folders, such as data sets
	rm -f "$(DESTDIR)$(BINDIR)/darknet" "$(DESTDIR)$(LIBDIR)/pkgconfig/darknet-itra.pc" \
	    $(patsubst $(B)/%,"$(DESTDIR)$(LIBDIR)/%",$(LIBS)) $(patsubst include/%,"$(DESTDIR)$(INCLUDEDIR)/%",$(HEADERS))
	rm -f "$(DESTDIR)$(DOCDIR)/README.md" "$(DESTDIR)$(DOCDIR)/LICENSE"
	for f in $(SHARED); do rm -f "$(DESTDIR)$(DATADIR)/$$f"; done
	for d in "$(INCLUDEDIR)" "$(DATADIR)/cfg" "$(DATADIR)/data" "$(DATADIR)/scripts" "$(DATADIR)" "$(DOCDIR)"; do \
	    [ ! -d "$(DESTDIR)$$d" ] || rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$d"; done

# ---- tests: each file is one program of its own ----------------------------------------------------------------------

names    = $(patsubst tests/%.c,%,$(wildcard tests/$(1)/*.c))
UNIT    := $(filter-out unit/decoders,$(call names,unit)) $(call names,ref) $(call names,layers) $(call names,train)
FAULTS  := $(call names,faults)
# Every operation of each backend against ref; in orders/, of kernels that run on the host, in several orders of threads.
OPS     := $(call names,backends)
ORDERS  := $(call on_host,$(OPS:backends/%=orders/%))
# Of the cuda backend alone: where kernels run on the host, and where cuDNN is there to plan.
DEVICE  := $(call on_host,cuda/faults cuda/late cuda/engine_file cuda/padding)$(call on,GPU,cuda/plans)

$(B)/tests/%.o: ALL_CFLAGS += -Itests
$(B)/tests/%: $(B)/tests/%.o $(LIB_OBJ) $(B)/link.flags
	$(link) -lcmocka
$(OPS:%=$(B)/tests/%): $(B)/tests/rig/rig.o $(B)/tests/rig/against_ref.o
$(B)/tests/orders/%: $(B)/tests/backends/%.o $(B)/tests/rig/rig.o $(B)/tests/cuda/orders.o $(LIB_OBJ) $(B)/link.flags
	@mkdir -p $(@D)
	$(link) -lcmocka
ifneq ($(findstring fuzzer,$(SAN)),) # scripts/fuzz.sh
$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(LIB_OBJ) $(B)/link.flags
	$(link) -fsanitize=fuzzer -Wl,--defsym=LLVMFuzzerTestOneInput=fuzz_$*
endif
$(B)/tests/fuzz/replay: $(patsubst %.c,$(B)/%.o,$(wildcard tests/fuzz/*.c))
$(B)/tests/faults/memory: LDLIBS += -Wl,--wrap=mem_alloc,--wrap=mem_text,--wrap=mem_free
# The programs of tests/device/run.sh and of make bench do without cmocka, and one without the library.
$(B)/plain/%.o: ALL_CFLAGS += -Itests -Itests/device
$(B)/plain/%.o: tests/%.c $(B)/compile.flags | $(B)/headers $(REGISTRIES)
	@mkdir -p $(@D)
	$(call say,cc)$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(OPS:%=$(B)/plain/%): $(B)/plain/rig/rig.o $(B)/plain/rig/against_ref.o
$(B)/plain/%: $(B)/plain/%.o $(B)/plain/device/cmocka.o $(LIB_OBJ) $(B)/link.flags
	$(link)
$(B)/tests/bench/%: $(B)/tests/bench/%.o $(LIB_OBJ) $(B)/link.flags
	$(link)
$(B)/tests/device/%.o: ALL_CFLAGS += -isystem $(CUDA)/include
$(B)/tests/cuda/%.o: ALL_CFLAGS += $(call on,GPU,$(CUDA_INCLUDE))
$(B)/tests/device/%: $(B)/tests/device/%.o $(B)/link.flags
	$(link)

# Set-up, every variant, every test: what .ci/run calls.
JOBS := $(shell nproc 2>/dev/null || echo 2)
ifeq ($(GPU),1) # the build for GPUs: what needs one is skipped where there is none
test:
	@scripts/deps.sh build test mpi nccl
	@$(MAKE) -j$(JOBS) --no-print-directory check-device lib
	@$(MAKE) -j$(JOBS) --no-print-directory MPI=1 NCCL=1 CUDA_ARCH=sm_90 build/float-cuda-mpi-nccl/darknet
	@tests/all.sh gpu
else ifneq ($(ONEDNN_ROOT),) # another oneDNN: what computes with it
test:
	@scripts/deps.sh build test
	@$(MAKE) -j$(JOBS) --no-print-directory darknet lib check-programs
	@tests/all.sh onednn
else
test:
	@scripts/deps.sh build test turbojpeg opencv mpi
	@$(MAKE) -j$(JOBS) --no-print-directory darknet lib check-programs tests/bin/itra-golden
	@$(MAKE) -j$(JOBS) --no-print-directory DOUBLE=1 check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory MPI=1 build/float-mpi/darknet build/float-mpi/tests/bench/exchange
	@$(MAKE) -j$(JOBS) --no-print-directory MPI=1 DOUBLE=1 build/double-ref-mpi/darknet
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined check-programs
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=thread build/float-thread/tests/unit/loader
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined ONEDNN=0 TURBOJPEG=1 check-images
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined ONEDNN=0 OPENCV=1 check-images
	@$(MAKE) -j$(JOBS) --no-print-directory SAN=address,undefined GPU=host check-device
	@$(MAKE) -j$(JOBS) --no-print-directory GPU=host MPI=1 NCCL=1 build/float-shim-ref-mpi-nccl/darknet
	@scripts/lint.sh
	@tests/all.sh
endif

check-programs: $(addprefix $(B)/tests/,$(UNIT) $(OPS) $(ORDERS) $(FAULTS) $(DEVICE) golden/itra golden/replay golden/cfgs \
                torch/replay fuzz/replay export/answer bench/step bench/load bench/pictures)

# Of a build with GPU=1, or with its kernels on the host.
check-device: $(B)/darknet $(B)/tests/bench/step $(addprefix $(B)/tests/,$(ORDERS) $(DEVICE)) \
              $(addprefix $(B)/plain/,$(OPS) layers/parity layers/replay) \
              $(call on,GPU,$(addprefix $(B)/tests/,$(OPS) layers/parity layers/replay device/ceilings))

# What decodes images, in each variant of it.
check-images: $(B)/darknet $(addprefix $(B)/tests/unit/,image decoders)

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

clean:
	rm -rf build darknet tests/bin

-include $(LIB_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(COMPAT_OBJ:.o=.d) $(wildcard $(B)/tests/*/*.d $(B)/plain/*/*.d)
.PHONY: all test check-programs check-device check-images golden oracle-cfgs golden-torch fuzz lint demo bench lib lib-path install uninstall clean FORCE
.PRECIOUS: $(B)/%.o $(B)/plain/%.o
