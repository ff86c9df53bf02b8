/* Writes from one engine to another until it is ended. */
#include "check.h"
#include "transfer_engine_c.h"

#define BYTES 65536

int main(void) {
    transfer_engine_t here = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", NULL, 0, 0);
    transfer_engine_t there = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", NULL, 0, 0);
    CHECK(here != NULL && there != NULL);
    char *source = calloc(1, BYTES), *target = calloc(1, BYTES), name[128];
    CHECK(source != NULL && target != NULL);
    CHECK_EQUAL(registerLocalMemory(here, source, BYTES, "*", 1), 0);
    CHECK_EQUAL(registerLocalMemory(there, target, BYTES, "*", 1), 0);
    CHECK_EQUAL(getLocalIpAndPort(there, name, sizeof(name)), 0);
    segment_id_t segment = openSegment(here, name);
    CHECK(segment > 0);
    transfer_request_t request = {OPCODE_WRITE, source, segment, (uintptr_t)target, BYTES};
    for (time_t end = deadline(); time(NULL) < end; pause_a_moment()) {
        batch_id_t batch = allocateBatchID(here, 1);
        CHECK_EQUAL(submitTransfer(here, batch, &request, 1), 0);
        transfer_status_t status = {STATUS_WAITING, 0};
        while (status.status == STATUS_WAITING || status.status == STATUS_PENDING)
            CHECK_EQUAL(getTransferStatus(here, batch, 0, &status), 0);
        CHECK_EQUAL(status.status, STATUS_COMPLETED);
        CHECK_EQUAL(freeBatchID(here, batch), 0);
    }
    destroyTransferEngine(here);
    destroyTransferEngine(there);
    free(source);
    free(target);
    puts("done");
    return 0;
}
