# SPDX-License-Identifier: BSD-3-Clause
# device/: GPUs, as far as the stand-ins play them.
e2e_tests += %D%/kernel_info.test
EXTRA_DIST += %D%/either_memory.h
if HAVE_CXX
e2e_tests += %D%/gpu_programs.test %D%/ptx.test %D%/on_device.test %D%/on_device_gathers.test %D%/device_cases.test \
  %D%/on_device_broadcasts.test
check_PROGRAMS += %D%/on_device_gathers %D%/on_device %D%/device_cases
%C%_device_cases_LDADD = tests/standin/cuda/libcuda.so.1 $(LDADD)
%C%_device_cases_LDFLAGS = $(to_driver)
endif
