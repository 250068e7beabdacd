# SPDX-License-Identifier: BSD-3-Clause
# Takes the place of NCCL's src/device/Makefile, whose kernels nvcc compiles for hours. The tables of kernels are NCCL's.
# A kernel is a function of the host that does nothing: only its address is used. A communicator of one rank copies
# without a kernel, but in a source for nvcc: such a call fails with ncclInternalError.
include ../../makefiles/common.mk
OBJDIR := $(BUILDDIR)/obj/device
TABLES := $(OBJDIR)/host_table.o $(OBJDIR)/symmetric/sym_kernels_host.o
INCLUDES := -I. -I.. -I$(BUILDDIR)/include -I../include -I../include/plugin

$(OBJDIR)/manifest: $(TABLES) $(OBJDIR)/kernels.o $(OBJDIR)/one_rank.o
	echo $^ > $@
$(OBJDIR)/%.o: $(OBJDIR)/%.cc
	$(CXX) $(INCLUDES) $(CXXFLAGS) -c $< -o $@
$(OBJDIR)/%.o: $(OBJDIR)/%.c
	$(CC) -fPIC -c $< -o $@
$(OBJDIR)/host_table.cc:
	mkdir -p $(@D)
	./generate.py $(@D) ""
$(OBJDIR)/symmetric/sym_kernels_host.cc: $(OBJDIR)/host_table.cc
	mkdir -p $(@D)
	./symmetric/generate.py $(@D)
$(OBJDIR)/kernels.c: $(TABLES)
	nm -u $(TABLES) | sed -n 's/^ *U \(_Z[0-9]*nccl[A-Za-z]*Kernel.*\)/void \1(void);\nvoid \1(void) {}/p' > $@
$(OBJDIR)/one_rank.cc: $(OBJDIR)/host_table.cc
	printf '%s\n' '#include "device.h"' 'ncclResult_t ncclLaunchOneRank(void*, void const*, size_t,' \
	  '  struct ncclDevRedOpFull, ncclDataType_t, cudaStream_t) { return ncclInternalError; }' > $@
