/* SPDX-License-Identifier: BSD-3-Clause
 * A stand-in for NVML on that for the driver: the GPUs of CUDA_STANDIN_DEVICES, each on a PCIe slot of its own. None
 * has NVLink, and none reaches another: the driver does not play memory of other processes. NCCL finds the other
 * functions of NVML missing, as in an old NVML.
 */
#include "tests/standin/nvml/nvml.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/standin/cuda/cuda.h"

#define NVML_API __attribute__((visibility("default")))

enum { GPUS = 64, VENDOR = 0x10de, BOARD = 0x20b0 };

struct nvmlDevice_st {
  char unused;
};

static struct nvmlDevice_st gpus[GPUS]; /* a handle is the address of its device's element */
static atomic_int users;

NVML_API nvmlReturn_t nvmlInit_v2(void) {
  if (cuInit(0) != CUDA_SUCCESS)
    return NVML_ERROR_DRIVER_NOT_LOADED;
  atomic_fetch_add(&users, 1);
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlShutdown(void) {
  if (atomic_load(&users) == 0)
    return NVML_ERROR_UNINITIALIZED;
  atomic_fetch_sub(&users, 1);
  return NVML_SUCCESS;
}

NVML_API const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
#define TEXT(name, value, text) \
  case name: return text;
    NVML_RETURNS(TEXT)
#undef TEXT
  }
  return "Unknown error";
}

/* -- devices ------------------------------------------------------------------------------------------------------- */
static int gpu_count(void) {
  int count = 0;
  return cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
}

/* Its number, or a negative error. */
static int number_of(nvmlDevice_t device) {
  if (atomic_load(&users) == 0)
    return -NVML_ERROR_UNINITIALIZED;
  return device >= gpus && device < gpus + gpu_count() ? (int)(device - gpus) : -NVML_ERROR_INVALID_ARGUMENT;
}

/* Returns from the function if the device is none. */
#define NUMBER_OF(device) \
  ({ \
    const int number_ = number_of(device); \
    if (number_ < 0) \
      return (nvmlReturn_t)-number_; \
    number_; \
  })

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  *count = (unsigned)gpu_count();
  return atomic_load(&users) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device) {
  NUMBER_OF(index < GPUS ? gpus + index : NULL);
  *device = gpus + index;
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
  *index = (unsigned)NUMBER_OF(device);
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
  const int number = NUMBER_OF(device);
  cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, number);
  cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, number);
  return NVML_SUCCESS;
}

/* -- PCIe ---------------------------------------------------------------------------------------------------------- */
/* Writes no byte behind the last text: NCCL 2.30 passes a structure of an older version, which is 16 bytes shorter. */
NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
  const int number = NUMBER_OF(device);
  char id[32];
  info->pciDeviceId = info->pciSubSystemId = BOARD << 16 | VENDOR;
  if (cuDeviceGetPCIBusId(id, sizeof id, number) != CUDA_SUCCESS ||
      sscanf(id, "%x:%x:%x", &info->domain, &info->bus, &info->device) != 3)
    return NVML_ERROR_NOT_FOUND;
  snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", info->domain & 0xffff, info->bus & 0xff,
           info->device & 0xff);
  snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", info->domain, info->bus & 0xff, info->device & 0xff);
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device) {
  unsigned domain, bus, slot;
  if (atomic_load(&users) == 0)
    return NVML_ERROR_UNINITIALIZED;
  if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
    return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < gpu_count(); i++) {
    nvmlPciInfo_t info;
    if (nvmlDeviceGetPciInfo_v3(gpus + i, &info) == NVML_SUCCESS && info.domain == domain && info.bus == bus &&
        info.device == slot) {
      *device = gpus + i;
      return NVML_SUCCESS;
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
  NUMBER_OF(device);
  *generation = 4;
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *lanes) {
  NUMBER_OF(device);
  *lanes = 16;
  return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t capability,
                                             nvmlGpuP2PStatus_t *status) {
  (void)capability;
  NUMBER_OF(device);
  NUMBER_OF(peer);
  *status = device == peer ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
