# SPDX-License-Identifier: BSD-3-Clause
# packaging/: `make wheel`, `make deb`, `make rpm` leave packages in dist/. See packaging/README.md.
packages = dist
EXTRA_DIST += %D%/README.md

# -- a wheel for pip ---------------------------------------------------------------------------------------------------
# It depends on glibc 2.28 alone: programs contain libelf and libjansson. It has all that `make install` installs.
EXTRA_DIST += %D%/wheel/make_wheel.py %D%/wheel/description.md %D%/wheel/THIRD-PARTY %D%/wheel/tagc/__init__.py %D%/wheel/tagc/__main__.py
wheel_tree = packaging/wheel.tree
wheel_platform = manylinux_2_28_$(host_cpu)
static_programs =
if HAVE_LIBELF
static_programs += packaging/static/tagc-doctor
packaging/static/tagc-doctor: $(tagc_doctor_OBJECTS) $(tagc_doctor_DEPENDENCIES)
	@test -n '$(LIBELF_STATIC_LIBS)' || { echo "make wheel: a wheel must not need libelf.so, and there is no libelf.a that links (Debian: libelf-dev zlib1g-dev)" >&2; exit 1; }
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(tagc_doctor_LINK) $(tagc_doctor_OBJECTS) libtagc.a $(PROGRAM_START) $(LIBELF_STATIC_LIBS) -ldl $(LIBS)
endif
if HAVE_JANSSON
static_programs += packaging/static/tagc-map
packaging/static/tagc-map: $(tagc_map_OBJECTS) $(tagc_map_DEPENDENCIES)
	@test -n '$(JANSSON_STATIC_LIBS)' || { echo "make wheel: a wheel must not need libjansson.so, and there is no libjansson.a that links (Debian: libjansson-dev)" >&2; exit 1; }
	$(AM_V_CCLD)$(MKDIR_P) $(@D) && $(tagc_map_LINK) $(tagc_map_OBJECTS) libtagc-map.a libtagc.a $(PROGRAM_START) $(JANSSON_STATIC_LIBS) $(LIBS)
endif
MOSTLYCLEANFILES += $(static_programs)

if SANITIZED
wheel: ; @echo "make wheel: this build has sanitizers; configure one without" >&2; exit 1
else
wheel: all $(static_programs)
	@command -v python3 >/dev/null || { echo "make wheel: python3 is missing (Debian: apt-get install python3)" >&2; exit 1; }
	@rm -rf $(wheel_tree) && $(MKDIR_P) $(wheel_tree)
	@$(MAKE) $(AM_MAKEFLAGS) -s install DESTDIR="`cd $(wheel_tree) && pwd`" prefix= exec_prefix= bindir=/bin libdir=/lib \
	  datarootdir=/share datadir=/share mandir=/share/man docdir=/share/doc/tagc >/dev/null
	@for program in $(static_programs); do cp $$program $(wheel_tree)/bin/ || exit 1; done
	@$(STRIP) --strip-unneeded $(wheel_tree)/bin/* $(wheel_tree)/lib/libtagc-preload.so
	@chmod 644 $(wheel_tree)/lib/libtagc-preload.so
	$(AM_V_GEN)python3 $(srcdir)/packaging/wheel/make_wheel.py --version '$(VERSION)' --platform '$(wheel_platform)' \
	  --tree $(wheel_tree) --licence $(srcdir)/LICENSE --output '$(packages)'
	@test -n '$(NVCC)' || echo "make wheel: the wheel has no GPU kernels, because configure found no nvcc" >&2
	@for program in tagc-doctor tagc-map; do \
	  test -e $(wheel_tree)/bin/$$program || echo "make wheel: the wheel has no $$program, because configure did not find its library" >&2; done
	@rm -rf $(wheel_tree)
endif
.PHONY: wheel

# auditwheel, from PyPI, says with which systems a wheel is compatible.
audit-wheel: wheel
	@command -v auditwheel >/dev/null || test -x auditwheel/bin/auditwheel || \
	  { python3 -m venv auditwheel && auditwheel/bin/pip install --quiet auditwheel; }
	@PATH="$$PATH:`pwd`/auditwheel/bin" auditwheel show $(packages)/tagc-$(VERSION)-py3-none-$(wheel_platform).whl
mostlyclean-local: ; rm -rf $(wheel_tree) auditwheel
.PHONY: audit-wheel
