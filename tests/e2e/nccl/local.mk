# SPDX-License-Identifier: BSD-3-Clause
# nccl/: how programs reach NCCL, its copies, its versions.
e2e_tests += %D%/dlsym.test %D%/passthrough.test %D%/preload.test %D%/beside.test %D%/copies.test %D%/ctypes.test \
  %D%/config_calls.test %D%/little.test %D%/newer.test %D%/unknown.test %D%/versions.test
EXTRA_DIST += %D%/reach_lib.sh %D%/ctypes_user.py
check_PROGRAMS += %D%/dlsym_user %D%/no_nccl %D%/config_calls %D%/second_names %D%/versions %D%/first_calls %D%/nccl_plugin.so %D%/nccl_wrapper.so \
  %D%/dlsym_hook.so %D%/little_user %D%/little_nccl_user %D%/little_nccl_a.so %D%/little_nccl_b.so \
  %D%/little_plugin.so %D%/little_outer.so %D%/dlopen_user %D%/dlopen_user.so
# All its references to NCCL are weak, so the linker would drop the library.
%C%_versions_LDFLAGS = $(AM_LDFLAGS) -Wl,--no-as-needed
%C%_nccl_plugin_so_SOURCES = %D%/nccl_plugin.c
%C%_nccl_plugin_so_CFLAGS = $(of_shared_objects) -foptimize-sibling-calls
%C%_nccl_plugin_so_LDFLAGS = $(to_shared_objects)
%C%_nccl_plugin_so_LDADD = tests/standin/libnccl.so
%C%_nccl_wrapper_so_SOURCES = %D%/nccl_wrapper.c
%C%_nccl_wrapper_so_CFLAGS = $(of_shared_objects)
%C%_nccl_wrapper_so_LDFLAGS = $(to_shared_objects)
%C%_nccl_wrapper_so_LDADD =
%C%_dlsym_hook_so_SOURCES = %D%/dlsym_hook.c
%C%_dlsym_hook_so_CFLAGS = $(of_shared_objects)
%C%_dlsym_hook_so_LDFLAGS = $(to_shared_objects)
%C%_dlsym_hook_so_LDADD =
%C%_little_user_LDADD =
%C%_little_nccl_user_SOURCES = %D%/little_user.c %D%/little_nccl.c
%C%_little_nccl_user_CFLAGS = $(AM_CFLAGS) -DCOPY='"program"'
%C%_little_nccl_user_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
%C%_little_nccl_user_LDADD =
%C%_little_nccl_a_so_SOURCES = %D%/little_nccl.c
%C%_little_nccl_a_so_CFLAGS = $(of_shared_objects) -DCOPY='"a"'
%C%_little_nccl_a_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_nccl_a.so
%C%_little_nccl_a_so_LDADD =
%C%_little_nccl_b_so_SOURCES = %D%/little_nccl.c
%C%_little_nccl_b_so_CFLAGS = $(of_shared_objects) -DCOPY='"b"'
%C%_little_nccl_b_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_nccl_b.so
%C%_little_nccl_b_so_LDADD =
%C%_little_plugin_so_SOURCES = %D%/little_plugin.c
%C%_little_plugin_so_CFLAGS = $(of_shared_objects)
%C%_little_plugin_so_LDFLAGS = $(to_shared_objects) -Wl,-soname,little_plugin.so -Wl,-z,now
%C%_little_plugin_so_LDADD = %D%/little_nccl_b.so
%C%_little_outer_so_SOURCES = %D%/little_plugin.c
%C%_little_outer_so_CFLAGS = $(of_shared_objects) -DOUTER
%C%_little_outer_so_LDFLAGS = $(to_shared_objects) -Wl,-z,now -Wl,--allow-shlib-undefined
%C%_little_outer_so_LDADD = %D%/little_nccl_a.so %D%/little_plugin.so
%C%_dlopen_user_LDFLAGS = $(AM_LDFLAGS) -Wl,--export-dynamic
%C%_dlopen_user_LDADD =
%C%_dlopen_user_so_SOURCES = %D%/dlopen_user.c
%C%_dlopen_user_so_CFLAGS = $(AM_CFLAGS) -fPIC -fsemantic-interposition -DLIBRARY
%C%_dlopen_user_so_LDFLAGS = $(to_shared_objects)
%C%_dlopen_user_so_LDADD =
if HAVE_CXX
e2e_tests += %D%/old_driver.test
endif
