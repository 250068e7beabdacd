# SPDX-License-Identifier: BSD-3-Clause
# completions/: for bash and zsh. That of tagc-run is made from the tables, the others from each program's --help.
EXTRA_DIST += completions/bash/tagc-run.in completions/bash/options.in completions/zsh/_tagc-run.in completions/zsh/_tagc
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
bashcompletion_DATA = completions/bash/tagc-run $(by_help)
zshcompletion_DATA = completions/zsh/_tagc-run completions/zsh/_tagc
by_help = completions/bash/tagc-bench completions/bash/tagc-report
if HAVE_LIBELF
by_help += completions/bash/tagc-doctor
endif
if HAVE_JANSSON
by_help += completions/bash/tagc-map
endif
CLEANFILES += completions/bash/tagc-run completions/zsh/_tagc-run $(by_help)

completions/bash/tagc-run: completions/bash/tagc-run.in man/print_tables$(EXEEXT) ; $(from_tables)
completions/zsh/_tagc-run: completions/zsh/_tagc-run.in man/print_tables$(EXEEXT) ; $(from_tables)
$(by_help): completions/bash/options.in
	$(AM_V_GEN)$(MKDIR_P) $(@D) && sed 's/@program@/$(@F)/' $(srcdir)/completions/bash/options.in >$@.new && mv $@.new $@
