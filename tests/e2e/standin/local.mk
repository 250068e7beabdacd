# SPDX-License-Identifier: BSD-3-Clause
# standin/: the stand-in for NCCL itself.
e2e_tests += %D%/standin.test %D%/standin_hosts.test %D%/standin_launch.test %D%/standin_network.test \
  %D%/standin_cuda.test
check_PROGRAMS += %D%/standin_bytes %D%/standin_collectives %D%/standin_comms %D%/standin_groups %D%/standin_network \
  %D%/standin_cuda
EXTRA_DIST += %D%/standin_check.h %D%/standin_rendezvous.h
%C%_standin_cuda_LDADD = tests/standin/cuda/libcuda.so.1 tests/standin/libnccl.so -lpthread
%C%_standin_cuda_LDFLAGS = $(to_driver)
