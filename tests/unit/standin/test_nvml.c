/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for NVML: its devices are the driver's, on the same PCIe addresses.
 */
#include "tests/standin/nvml/nvml.h"
#include "tests/unit/device/cuda_child.h"

#define WELL(call) EXPECT((call) == NVML_SUCCESS)

static void gpus(void) {
  nvmlDevice_t device, other;
  nvmlGpuP2PStatus_t itself, peers;
  nvmlPciInfo_t info;
  unsigned count = 0, index = 0, lanes = 0, generation = 0;
  int major = 0, minor = 0;
  char id[16];
  EXPECT(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED && nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
  EXPECT(nvmlDeviceGetHandleByIndex(0, &device) == NVML_ERROR_UNINITIALIZED);
  WELL(nvmlInit_v2());
  WELL(nvmlDeviceGetCount_v2(&count));
  WELL(nvmlDeviceGetHandleByIndex(1, &device));
  EXPECT(count == 2 && nvmlDeviceGetHandleByIndex(2, &other) == NVML_ERROR_INVALID_ARGUMENT);
  MUST(cuDeviceGetPCIBusId(id, sizeof id, 1));
  WELL(nvmlDeviceGetHandleByPciBusId(id, &other));
  WELL(nvmlDeviceGetIndex(other, &index));
  EXPECT(other == device && index == 1);
  EXPECT(nvmlDeviceGetHandleByPciBusId("0000:7f:00.0", &other) == NVML_ERROR_NOT_FOUND);
  EXPECT(nvmlDeviceGetHandleByPciBusId("none", &other) == NVML_ERROR_INVALID_ARGUMENT);
  WELL(nvmlDeviceGetPciInfo_v3(device, &info));
  EXPECT(strcmp(info.busId, "00000000:02:00.0") == 0 && (info.pciDeviceId & 0xffff) == 0x10de);
  WELL(nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
  WELL(nvmlDeviceGetCurrPcieLinkWidth(device, &lanes));
  WELL(nvmlDeviceGetCurrPcieLinkGeneration(device, &generation));
  EXPECT(major == 7 && minor == 5 && lanes == 16 && generation == 4);
  WELL(nvmlDeviceGetHandleByIndex(0, &other));
  WELL(nvmlDeviceGetP2PStatus(device, device, NVML_P2P_CAPS_INDEX_READ, &itself));
  WELL(nvmlDeviceGetP2PStatus(device, other, NVML_P2P_CAPS_INDEX_READ, &peers));
  EXPECT(itself == NVML_P2P_STATUS_OK && peers != NVML_P2P_STATUS_OK);
  EXPECT(nvmlDeviceGetP2PStatus(device, NULL, NVML_P2P_CAPS_INDEX_WRITE, &peers) == NVML_ERROR_INVALID_ARGUMENT);
  WELL(nvmlShutdown());
  EXPECT(nvmlDeviceGetIndex(device, &index) == NVML_ERROR_UNINITIALIZED);
}

static void no_gpu(void) {
  EXPECT(nvmlInit_v2() == NVML_ERROR_DRIVER_NOT_LOADED);
  EXPECT(strcmp(nvmlErrorString(NVML_ERROR_DRIVER_NOT_LOADED), "NVIDIA driver is not loaded") == 0);
}

int main(void) {
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_CAPABILITY=75", gpus, "the devices of the driver");
  lives("CUDA_STANDIN_DEVICES=0", no_gpu, "no device at all");
  return tap_done();
}
