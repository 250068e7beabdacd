# SPDX-License-Identifier: BSD-3-Clause
# Takes the place of NCCL's src/device/Makefile, whose kernels nvcc compiles for hours. The tables of kernels are NCCL's.
# kernels.cc, beside this file as it was, plays the kernels. A communicator of one rank copies without a kernel, but by a
# source for nvcc: such a call fails with ncclInternalError.
include ../../makefiles/common.mk
OBJDIR := $(BUILDDIR)/obj/device
TABLES := $(OBJDIR)/host_table.o $(OBJDIR)/symmetric/sym_kernels_host.o
INCLUDES := -I. -I.. -I$(BUILDDIR)/include -I../include -I../include/plugin
COMPILE := $(CXX) $(INCLUDES) $(CXXFLAGS) -c

$(OBJDIR)/manifest: $(TABLES) $(OBJDIR)/stubs.o $(OBJDIR)/one_rank.o $(OBJDIR)/kernels.o
	echo $^ > $@
$(OBJDIR)/kernels.o: kernels.cc
	$(COMPILE) -O2 $< -o $@
$(OBJDIR)/%.o: $(OBJDIR)/%.cc
	$(COMPILE) $< -o $@
$(OBJDIR)/%.o: $(OBJDIR)/%.c
	$(CC) -fPIC -c $< -o $@
$(OBJDIR)/host_table.cc:
	mkdir -p $(@D)
	./generate.py $(@D) ""
$(OBJDIR)/symmetric/sym_kernels_host.cc: $(OBJDIR)/host_table.cc
	mkdir -p $(@D)
	./symmetric/generate.py $(@D)
# An empty function for each kernel, whose address tells it, and a call for each that is played.
$(OBJDIR)/stubs.c: $(TABLES)
	{ echo 'void ncclStandinPlay(const void *);'; \
	  echo 'int cudaStandinPlays(const void *, const char *, void (*)(const void *));'; \
	  nm -u $(TABLES) | sed -n 's/^ *U \(_Z[0-9]*nccl[A-Za-z]*Kernel.*\)/void \1(void);\nvoid \1(void) {}/p'; \
	  echo '__attribute__((constructor)) static void tell(void) {'; \
	  nm -u $(TABLES) | sed -n 's/^ *U \(_Z[0-9]*ncclDevKernel.*\)/  cudaStandinPlays(\1, "\1", ncclStandinPlay);/p'; \
	  echo '}'; } > $@
$(OBJDIR)/one_rank.cc: $(OBJDIR)/host_table.cc
	printf '%s\n' '#include "device.h"' 'ncclResult_t ncclLaunchOneRank(void*, void const*, size_t,' \
	  '  struct ncclDevRedOpFull, ncclDataType_t, cudaStream_t) { return ncclInternalError; }' > $@
