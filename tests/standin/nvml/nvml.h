/* SPDX-License-Identifier: BSD-3-Clause
 * The part of NVML's ABI (libnvidia-ml.so.1) that NCCL's init uses. Types and values are those of NVIDIA's nvml.h; the
 * documentation of NVML describes the functions. All but nvmlErrorString() need nvmlInit_v2() first, else they return
 * NVML_ERROR_UNINITIALIZED. The caller owns what a pointer points to. Any thread may call them.
 */
#ifndef TESTS_STANDIN_NVML_NVML_H
#define TESTS_STANDIN_NVML_NVML_H

#ifdef __cplusplus
extern "C" {
#endif

/* N(name, value, text) */
#define NVML_RETURNS(N) \
  N(NVML_SUCCESS, 0, "The operation was successful") \
  N(NVML_ERROR_UNINITIALIZED, 1, "NVML was not first initialized with nvmlInit()") \
  N(NVML_ERROR_INVALID_ARGUMENT, 2, "A supplied argument is invalid") \
  N(NVML_ERROR_NOT_FOUND, 6, "A query to find an object was unsuccessful") \
  N(NVML_ERROR_DRIVER_NOT_LOADED, 9, "NVIDIA driver is not loaded")

typedef enum {
#define NVML_VALUE(name, value, text) name = value,
  NVML_RETURNS(NVML_VALUE)
#undef NVML_VALUE
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum { NVML_P2P_STATUS_OK, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED } nvmlGpuP2PStatus_t;
typedef enum { NVML_P2P_CAPS_INDEX_READ, NVML_P2P_CAPS_INDEX_WRITE } nvmlGpuP2PCapsIndex_t;

typedef struct {
  char busIdLegacy[16]; /* a domain of four digits */
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32]; /* a domain of eight digits */
} nvmlPciInfo_t;

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device); /* its domain has any length */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *lanes);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t peer, nvmlGpuP2PCapsIndex_t capability,
                                    nvmlGpuP2PStatus_t *status);

#ifdef __cplusplus
}
#endif

#endif
