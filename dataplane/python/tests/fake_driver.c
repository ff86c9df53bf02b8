/* A driver of an accelerator whose memory the CPU cannot touch: what stands in for libcuda.so.1 in tests.
   Addresses of the device lie in a range without rights; their bytes lie elsewhere. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#define BYTES (64UL << 20)
#define DEVICE 3

static unsigned char *device, *bytes;

static int holds(unsigned long address, size_t size) {
    unsigned long first = (unsigned long)device;
    return address >= first && address - first <= BYTES && size <= BYTES - (address - first);
}

/* First address of the device's memory. */
unsigned long fake_device_memory(void) { return (unsigned long)device; }

int cuInit(unsigned flags) {
    (void)flags;
    if (device) return 0;
    device = mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bytes = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return device == MAP_FAILED || bytes == MAP_FAILED;
}

int cuPointerGetAttribute(void *value, int attribute, unsigned long address) {
    if (!device || !holds(address, 1)) return 1;
    *(unsigned *)value = attribute == 2 ? 2 : DEVICE;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int ordinal) {
    *context = (void *)&device;
    return ordinal != DEVICE;
}

int cuCtxPushCurrent_v2(void *context) { return context != (void *)&device; }

int cuCtxPopCurrent_v2(void **context) {
    *context = (void *)&device;
    return 0;
}

int cuMemcpyDtoH_v2(void *host, unsigned long address, size_t size) {
    if (!holds(address, size)) return 1;
    memcpy(host, bytes + (address - (unsigned long)device), size);
    return 0;
}

int cuMemcpyHtoD_v2(unsigned long address, const void *host, size_t size) {
    if (!holds(address, size)) return 1;
    memcpy(bytes + (address - (unsigned long)device), host, size);
    return 0;
}
