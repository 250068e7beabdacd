/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/call.h"

#include "interpose/comm/comm.h"

bool tagc_call_retain(struct tagc_call *copy) {
  if (copy->kept)
    tagc_coll_config_retain(copy->kept);
  else if (copy->config && !(copy->kept = tagc_coll_config_keep(copy->config)))
    return false;
  if (copy->kept)
    copy->config = tagc_coll_config_of(copy->kept);
  if (copy->comm)
    tagc_comm_retain(copy->comm);
  return true;
}

void tagc_call_release(struct tagc_call *copy) {
  tagc_comm_release(copy->comm);
  tagc_coll_config_release(copy->kept);
}
