# SPDX-License-Identifier: BSD-3-Clause
# tagc-map/: tagc-map.
if HAVE_JANSSON
unit_tests += %D%/test_config %D%/test_forecast %D%/test_registered %D%/test_safetensors
%C%_test_config_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
%C%_test_forecast_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
%C%_test_registered_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
%C%_test_safetensors_LDADD = libtagc-map.a $(LDADD) $(JANSSON_LIBS)
endif
