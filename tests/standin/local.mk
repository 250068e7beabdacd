# SPDX-License-Identifier: BSD-3-Clause
# A stand-in for NCCL: a shared object under the name that programs link and load.
noinst_PROGRAMS += tests/standin/libnccl.so.2
tests_standin_libnccl_so_2_SOURCES = \
  tests/standin/net/address.c \
  tests/standin/net/bootstrap.c \
  tests/standin/call_api.c \
  tests/standin/capture.c \
  tests/standin/net/channel.c \
  tests/standin/coll_config.c \
  tests/standin/comm.c \
  tests/standin/comm_api.c \
  tests/standin/config.c \
  tests/standin/net/contact.c \
  tests/standin/device.c \
  tests/standin/engine.c \
  tests/standin/fault.c \
  tests/standin/group.c \
  tests/standin/net/host.c \
  tests/standin/net/link.c \
  tests/standin/net/link.h \
  tests/standin/misc.c \
  tests/standin/newer.c \
  tests/standin/on_host.c \
  tests/standin/p2p.c \
  tests/standin/profiler.c \
  tests/standin/net/rate.c \
  tests/standin/redop.c \
  tests/standin/reduce.c \
  tests/standin/reduce_kernels.h \
  tests/standin/net/ring.c \
  tests/standin/standin.h \
  tests/standin/stats.c \
  tests/standin/version.c \
  tests/standin/versions.def \
  tests/standin/net/wire.c
tests_standin_libnccl_so_2_CFLAGS = $(LIBRARY_CFLAGS) -pthread
tests_standin_libnccl_so_2_LDADD =
tests_standin_libnccl_so_2_LDFLAGS = $(SANITIZE_CFLAGS) -shared -pthread -Wl,-soname,libnccl.so.2

# Lets -Ltests/standin -lnccl find it.
CLEANFILES += tests/standin/libnccl.so
tests/standin/libnccl.so: tests/standin/libnccl.so.2
	$(AM_V_GEN)rm -f $@ && $(LN_S) libnccl.so.2 $@

# The same objects for device memory, on the stand-in for the CUDA driver.
noinst_PROGRAMS += tests/standin/device/libnccl.so.2
tests_standin_device_libnccl_so_2_SOURCES = tests/standin/on_device.c
tests_standin_device_libnccl_so_2_CFLAGS = $(tests_standin_libnccl_so_2_CFLAGS)
tests_standin_device_libnccl_so_2_LDADD = $(tests_standin_libnccl_so_2_OBJECTS)
tests_standin_device_libnccl_so_2_DEPENDENCIES = $(tests_standin_libnccl_so_2_OBJECTS)
tests_standin_device_libnccl_so_2_LDFLAGS = $(tests_standin_libnccl_so_2_LDFLAGS)

# The same objects as older and newer versions of NCCL: tests/standin/versions/2.18.1/libnccl.so.2 and so on.
EXTRA_DIST += tests/standin/variants.sh
noinst_DATA += tests/standin/versions/done
tests/standin/versions/done: $(srcdir)/tests/standin/variants.sh $(srcdir)/tests/standin/versions.def tests/standin/libnccl.so.2
	$(AM_V_GEN)CC='$(CC)' LDFLAGS='$(CFLAGS) $(tests_standin_libnccl_so_2_LDFLAGS)' $(srcdir)/tests/standin/variants.sh \
	  $(srcdir)/tests/standin/versions.def tests/standin/versions $(tests_standin_libnccl_so_2_OBJECTS) && touch $@
clean_folders += tests/standin/versions

# Starts the ranks of a program on this machine.
noinst_PROGRAMS += tests/standin/launch
tests_standin_launch_SOURCES = tests/standin/launch.c tests/standin/launch_output.c tests/standin/launch_output.h
tests_standin_launch_LDADD = libtagc.a -lpthread

# Measures the speed of the stand-in, in units of memcpy.
noinst_PROGRAMS += tests/standin/bench
