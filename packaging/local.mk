# SPDX-License-Identifier: BSD-3-Clause
# packaging/: `make wheel`, `make deb`, `make rpm` leave packages in dist/. See packaging/README.md.
packages = dist
EXTRA_DIST += %D%/README.md

# -- a wheel for pip ---------------------------------------------------------------------------------------------------
# It depends on glibc 2.28 alone: programs contain libelf and libjansson. It has all that `make install` installs.
EXTRA_DIST += %D%/wheel/cross_libraries %D%/wheel/make_wheel.py %D%/wheel/description.md %D%/wheel/THIRD-PARTY %D%/wheel/tagc/__init__.py %D%/wheel/tagc/__main__.py
wheel_tree = packaging/wheel.tree
wheel_glibc = 28
wheel_platform = manylinux_2_$(wheel_glibc)_$(host_cpu)
# The distribution's libelf.a may need a newer glibc than our own objects.
wheel_is_old = LC_ALL=C readelf -W --version-info $(wheel_tree)/bin/* $(wheel_tree)/lib/*.so | $(AWK) -v most=$(wheel_glibc) \
  '/^File: / { n = split($$2, path, "/") } \
   $$2 == "Name:" && $$3 ~ /^GLIBC_/ { seen = 1; minor = $$3; sub(/^GLIBC_2\./, "", minor); \
     if (minor !~ /^[0-9.]+$$/ || minor + 0 > most) { print "make wheel: " path[n] " needs " $$3 ", which glibc 2." most " lacks; build the wheel on an older system"; bad = 1 } } \
   END { if (!seen) print "make wheel: readelf names no version of glibc"; exit bad || !seen }' >&2
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
# `all` is a make of its own: with other prerequisites beside it, two would write the same archives.
wheel: all
	@$(MAKE) $(AM_MAKEFLAGS) $(static_programs)
	@command -v python3 >/dev/null || { echo "make wheel: python3 is missing (Debian: apt-get install python3)" >&2; exit 1; }
	@rm -rf $(wheel_tree) && $(MKDIR_P) $(wheel_tree)
	@$(MAKE) $(AM_MAKEFLAGS) -s install DESTDIR="`cd $(wheel_tree) && pwd`" prefix= exec_prefix= bindir=/bin libdir=/lib \
	  datarootdir=/share datadir=/share mandir=/share/man docdir=/share/doc/tagc >/dev/null
	@for program in $(static_programs); do cp $$program $(wheel_tree)/bin/ || exit 1; done
	@$(STRIP) --strip-unneeded $(wheel_tree)/bin/* $(wheel_tree)/lib/libtagc-preload.so
	@chmod 644 $(wheel_tree)/lib/libtagc-preload.so
	@$(wheel_is_old)
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

# -- packages of distributions, built from the tarball -------------------------------------------------------------------
EXTRA_DIST += %D%/debian/changelog %D%/debian/control %D%/debian/copyright %D%/debian/rules %D%/debian/source/format \
  %D%/debian/tagc.lintian-overrides %D%/debian/tagc.triggers \
  %D%/rpm/tagc.spec %D%/conda/build.sh %D%/conda/recipe.yaml %D%/conda/variants.yaml %D%/lmod/tagc.lua.in %D%/container/Dockerfile \
  %D%/container/Dockerfile.wheel
tarball = $(distdir).tar.xz
package_needs = @needs() { command -v "$$1" >/dev/null || { echo "make $(@:-needs=): there is no $$1 (Debian: apt-get install $$2)" >&2; exit 1; }; }; needs

# A short test of what was built: of a build with other flags than the usual ones.
units_package = tests/unit/codec/test_bits tests/unit/codec/test_residual tests/unit/dense/test_values \
  tests/unit/lhc/test_exact tests/unit/device/test_self_test
programs_package = $(units_package) tests/e2e/standin/standin_collectives tests/e2e/standin/standin_comms \
  tests/e2e/standin/standin_groups
check-package:
	@$(MAKE) $(AM_MAKEFLAGS) check check_DATA= check_PROGRAMS='$(programs_package)' \
	  TESTS='$(units_package) tests/e2e/nccl/passthrough.test tests/e2e/project/hardening.test'

# Always made anew: some of its contents are whole folders, whose files make does not know. One rule makes it for all packages,
# so that two at a time are possible.
$(tarball):
	@$(MAKE) $(AM_MAKEFLAGS) -s dist-xz >/dev/null

deb-needs: ; $(package_needs) dpkg-buildpackage 'dpkg-dev debhelper'
deb: deb-needs $(tarball)
	@rm -rf packaging/deb && $(MKDIR_P) packaging/deb '$(packages)'
	@tar -xf $(tarball) -C packaging/deb
	@cp -R packaging/deb/$(distdir)/packaging/debian packaging/deb/$(distdir)/debian
	@sed -i 's/@VERSION''@/$(VERSION)/g' packaging/deb/$(distdir)/debian/changelog
	@cp $(tarball) packaging/deb/tagc_$(VERSION).orig.tar.xz
	$(AM_V_GEN)cd packaging/deb/$(distdir) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc -b >../build.log 2>&1 || \
	  { tail -n 12 ../build.log >&2; echo "make $@: dpkg-buildpackage failed (see packaging/deb/build.log)" >&2; exit 1; }
	@mv packaging/deb/*.deb packaging/deb/*.buildinfo packaging/deb/*.changes '$(packages)'
	@rm -rf packaging/deb/$(distdir) && ls $(packages)/tagc_$(VERSION)-1_*.deb

# On a system of other packages rpmbuild cannot know that what is needed is there: RPMBUILD_FLAGS=--nodeps.
rpm-needs: ; $(package_needs) rpmbuild 'rpm'
rpm: rpm-needs $(tarball)
	@rm -rf packaging/rpm.tree && $(MKDIR_P) packaging/rpm.tree/SOURCES '$(packages)'
	@cp $(tarball) packaging/rpm.tree/SOURCES/
	@sed 's/@VERSION''@/$(VERSION)/g' $(srcdir)/packaging/rpm/tagc.spec >packaging/rpm.tree/tagc.spec
	$(AM_V_GEN)env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL rpmbuild $(RPMBUILD_FLAGS) -bb --define "_topdir `pwd`/packaging/rpm.tree" \
	  packaging/rpm.tree/tagc.spec >packaging/rpm.log 2>&1 || { tail -n 12 packaging/rpm.log >&2; echo "make $@: rpmbuild failed (see packaging/rpm.log)" >&2; exit 1; }
	@mv packaging/rpm.tree/RPMS/*/*.rpm '$(packages)'
	@rm -rf packaging/rpm.tree && ls $(packages)/tagc-$(VERSION)-1*.rpm

modulefile:
	@$(MKDIR_P) '$(packages)'
	$(AM_V_GEN)sed -e 's,@VERSION''@,$(VERSION),g' -e 's,@BINDIR''@,$(bindir),g' -e 's,@LIBDIR''@,$(libdir),g' \
	  $(srcdir)/packaging/lmod/tagc.lua.in >'$(packages)/$(VERSION).lua'
	@ls '$(packages)/$(VERSION).lua'

conda-recipe: $(tarball)
	@rm -rf '$(packages)/conda' && $(MKDIR_P) '$(packages)/conda'
	@cp $(tarball) '$(packages)/'
	@cp $(srcdir)/packaging/conda/build.sh $(srcdir)/packaging/conda/variants.yaml '$(packages)/conda/'
	$(AM_V_GEN)sed 's/@VERSION''@/$(VERSION)/g' $(srcdir)/packaging/conda/recipe.yaml >'$(packages)/conda/recipe.yaml'
	@ls '$(packages)/conda/recipe.yaml'
.PHONY: check-package $(tarball) deb deb-needs rpm rpm-needs modulefile conda-recipe

distclean-local: ; rm -rf dist packaging/deb packaging/rpm.tree packaging/rpm.log $(PACKAGE)-*.tar.xz
