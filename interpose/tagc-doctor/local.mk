# SPDX-License-Identifier: BSD-3-Clause
# tagc-doctor/: tells whether interception will work here. Needs libelf.
if HAVE_LIBELF
bin_PROGRAMS += tagc-doctor
tagc_doctor_SOURCES = \
  %D%/doctor.h %D%/elf.c %D%/elf.h %D%/json.c %D%/judge.c %D%/net.c %D%/process.c %D%/python.c %D%/report.c \
  %D%/search.c %D%/search.h %D%/surroundings.c %D%/tagc-doctor.c %D%/target.c
tagc_doctor_CPPFLAGS = $(AM_CPPFLAGS) -DPRELOADDIR='"$(preloaddir)"' -DBINDIR='"$(bindir)"'
tagc_doctor_CFLAGS = $(PROGRAM_CFLAGS)
tagc_doctor_LDFLAGS = $(PROGRAM_LINK_FLAGS)
tagc_doctor_LDADD = libtagc.a $(PROGRAM_START) $(LIBELF_LIBS) -ldl
endif
