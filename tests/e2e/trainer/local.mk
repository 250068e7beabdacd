# SPDX-License-Identifier: BSD-3-Clause
# trainer/: the example trainer, and the commands of quickstart that run it.
e2e_tests += %D%/launchers.test %D%/demo.test %D%/train_fsdp.test %D%/torch_ddp.test
EXTRA_DIST += %D%/trainer_lib.sh %D%/torch_ddp.py
check_PROGRAMS += %D%/trainer_rendezvous
TESTS += %D%/trainer_rendezvous
if HAVE_BLAS
e2e_tests += %D%/trainer_gradients.test %D%/trainer_options.test %D%/trainer_ranks.test %D%/trainer_gathers.test \
  %D%/trainer_levels.test %D%/trainer_checkpoints.test %D%/trainer_precise.test %D%/soak.test %D%/fidelity.test %D%/large.test \
  %D%/paper.test
endif
