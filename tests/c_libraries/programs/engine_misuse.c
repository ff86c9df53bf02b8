/* Calls that are wrong in every way the library can detect: each answers an error. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "transfer_engine_c.h"

static void refuse_handle(transfer_engine_t engine) {
    char text[64];
    int size = 7;
    size_t count = 1;
    nic_load_stat_t load;
    transfer_status_t status;
    struct transfer_request request = {OPCODE_READ, text, 0, 4096, 8};
    notify_msg_t message = {"name", "text"};
    buffer_entry_t buffer = {text, sizeof(text)};
    void *address = text;
    CHECK_EQUAL(discoverTopology(engine), -1);
    CHECK_EQUAL(getLocalIpAndPort(engine, text, sizeof(text)), -1);
    CHECK(installTransport(engine, "tcp", NULL) == NULL);
    CHECK_EQUAL(uninstallTransport(engine, "tcp"), -1);
    CHECK_EQUAL(openSegment(engine, "127.0.0.1:1"), -1);
    CHECK_EQUAL(openSegmentNoCache(engine, "127.0.0.1:1"), -1);
    CHECK_EQUAL(closeSegment(engine, 0), -1);
    CHECK_EQUAL(removeLocalSegment(engine, "name"), -1);
    CHECK_EQUAL(syncSegmentCache(engine), -1);
    CHECK_EQUAL(warmupEfaSegment(engine, "name"), -1);
    CHECK_EQUAL(registerLocalMemory(engine, text, sizeof(text), "*", 1), -1);
    CHECK_EQUAL(unregisterLocalMemory(engine, text), -1);
    CHECK_EQUAL(registerLocalMemoryBatch(engine, &buffer, 1, "*"), -1);
    CHECK_EQUAL(unregisterLocalMemoryBatch(engine, &address, 1), -1);
    CHECK(allocateBatchID(engine, 1) == INVALID_BATCH);
    CHECK_EQUAL(submitTransfer(engine, 1, &request, 1), 1);
    CHECK_EQUAL(submitTransferWithNotify(engine, 1, &request, 1, message), 1);
    CHECK_EQUAL(getTransferStatus(engine, 1, 0, &status), 1);
    CHECK_EQUAL(freeBatchID(engine, 1), 1);
    CHECK(getNotifsFromEngine(engine, &size) == NULL);
    CHECK_EQUAL(size, 0);
    CHECK_EQUAL(genNotifyInEngine(engine, 0, message), -1);
    CHECK_EQUAL(getNicLoadStats(engine, &load, &count), -1);
    CHECK_EQUAL(showLinks(engine, text, sizeof(text), 1), -1);
    enableGracefulShutdown(engine);
    destroyTransferEngine(engine);
}

static void refuse_start(const char *metadata, const char *name) {
    CHECK(createTransferEngine(metadata, name, "", 0, 0) == NULL);
}

int main(void) {
    char foreign[64] = {0};
    refuse_handle(NULL);
    refuse_handle(foreign);
    refuse_start(NULL, "127.0.0.1");
    refuse_start("P2PHANDSHAKE", NULL);
    refuse_start("P2PHANDSHAKE", "");
    refuse_start("P2PHANDSHAKE", "no such host:1:2");
    refuse_start("P2PHANDSHAKE", "\xff\xfe");
    refuse_start("http://127.0.0.1:1/metadata", "127.0.0.1");

    transfer_engine_t engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 0);
    CHECK(engine != NULL);
    char before[64], after[64];
    CHECK_EQUAL(getLocalIpAndPort(engine, before, sizeof(before)), 0);
    void *no_matrix[1] = {"{\"cpu:0\": 7}"};
    CHECK(installTransport(engine, "carrier pigeon", NULL) == NULL);
    CHECK(installTransport(engine, NULL, NULL) == NULL);
    void *matrix[1] = {"{\"cpu:0\": [[\"mlx5_0\"], [\"mlx5_1\"]]}"};
    CHECK(installTransport(engine, "rdma", matrix) != NULL);
    char links[4096];
    CHECK_EQUAL(showLinks(engine, links, sizeof(links), 1), 0);
    CHECK(strstr(links, "mlx5_1") != NULL);
    CHECK(installTransport(engine, "tcp", NULL) != NULL);
    /* It keeps the name that peers may know by now. */
    CHECK_EQUAL(getLocalIpAndPort(engine, after, sizeof(after)), 0);
    CHECK(strcmp(before, after) == 0);
    CHECK_EQUAL(uninstallTransport(engine, "pigeon"), -1);

    CHECK_EQUAL(getLocalIpAndPort(engine, after, strlen(after)), -1);
    CHECK_EQUAL(getLocalIpAndPort(engine, NULL, 64), -1);
    CHECK_EQUAL(showLinks(engine, after, 0, 0), -1);
    CHECK_EQUAL(getNicLoadStats(engine, NULL, NULL), -1);
    size_t count = 1;
    CHECK_EQUAL(getNicLoadStats(engine, NULL, &count), -1);
    CHECK_EQUAL(openSegment(engine, NULL), -1);
    CHECK_EQUAL(openSegment(engine, ""), -1);
    CHECK_EQUAL(openSegment(engine, "//"), -1);
    CHECK_EQUAL(openSegment(engine, before), LOCAL_SEGMENT);
    CHECK_EQUAL(removeLocalSegment(engine, before), -1);
    CHECK_EQUAL(closeSegment(engine, 4711), -1);

    char memory[256] = {0};
    CHECK_EQUAL(registerLocalMemory(engine, NULL, 64, "*", 1), -1);
    CHECK_EQUAL(registerLocalMemory(engine, memory, 0, "*", 1), -1);
    CHECK_EQUAL(registerLocalMemory(engine, memory, SIZE_MAX, "*", 1), -1);
    CHECK_EQUAL(registerLocalMemory(engine, memory, sizeof(memory), "moon", 1), -1);
    CHECK_EQUAL(registerLocalMemory(engine, (void *)4096, 64, "*", 1), -1);
    CHECK_EQUAL(registerLocalMemoryBatch(engine, NULL, 3, "*"), -1);
    CHECK_EQUAL(unregisterLocalMemory(engine, memory), ENGINE_NOT_REGISTERED);
    CHECK_EQUAL(registerLocalMemory(engine, memory, sizeof(memory), "*", 1), 0);
    CHECK(installTransport(engine, "rdma", no_matrix) == NULL);

    CHECK(allocateBatchID(engine, SIZE_MAX) == INVALID_BATCH);
    batch_id_t batch = allocateBatchID(engine, 2);
    struct transfer_request request = {OPCODE_WRITE, memory, LOCAL_SEGMENT,
                                       (uintptr_t)memory + 128, 64};
    struct transfer_request bad = request;
    notify_msg_t message = {"name", "text"}, nameless = {NULL, "text"};
    CHECK_EQUAL(submitTransfer(engine, batch, NULL, 1), 1);
    CHECK_EQUAL(submitTransfer(engine, batch, &request, SIZE_MAX), 1);
    bad.opcode = 9;
    CHECK_EQUAL(submitTransfer(engine, batch, &bad, 1), 1);
    bad = request;
    bad.source = NULL;
    CHECK_EQUAL(submitTransfer(engine, batch, &bad, 1), 1);
    bad = request;
    bad.target_id = 4711;
    CHECK_EQUAL(submitTransfer(engine, batch, &bad, 1), 1);
    bad = request;
    bad.length = UINT64_MAX;
    CHECK(submitTransfer(engine, batch, &bad, 1) != 0);
    CHECK_EQUAL(submitTransferWithNotify(engine, batch, &request, 0, message), 1);
    CHECK_EQUAL(submitTransferWithNotify(engine, batch, &request, 1, nameless), 1);
    CHECK_EQUAL(submitTransfer(engine, batch + 1000, &request, 1), 1);
    transfer_status_t status;
    CHECK_EQUAL(getTransferStatus(engine, batch, 0, &status), 1);
    CHECK_EQUAL(getTransferStatus(engine, batch, 0, NULL), 1);
    memory[0] = 42;
    CHECK_EQUAL(submitTransfer(engine, batch, &request, 1), 0);
    do {
        CHECK_EQUAL(getTransferStatus(engine, batch, 0, &status), 0);
    } while (status.status == STATUS_PENDING || status.status == STATUS_WAITING);
    CHECK_EQUAL(status.status, STATUS_COMPLETED);
    CHECK_EQUAL(memory[128], 42);
    CHECK_EQUAL(freeBatchID(engine, batch), 0);
    CHECK_EQUAL(freeBatchID(engine, batch), 1);
    CHECK_EQUAL(submitTransfer(engine, batch, &request, 1), 1);

    CHECK(getNotifsFromEngine(engine, NULL) == NULL);
    CHECK_EQUAL(genNotifyInEngine(engine, UINT64_MAX, message), -1);
    CHECK_EQUAL(genNotifyInEngine(engine, LOCAL_SEGMENT, message), 0);
    int size = 0;
    notify_msg_t *messages = NULL;
    for (time_t end = deadline(); messages == NULL; pause_a_moment()) {
        CHECK(time(NULL) < end);
        messages = getNotifsFromEngine(engine, &size);
    }
    CHECK_EQUAL(size, 1);
    CHECK(strcmp(messages[0].msg, "text") == 0);
    CHECK_EQUAL(freeNotifsMsgBuf(messages, 999), 0);
    CHECK_EQUAL(freeNotifsMsgBuf(messages, 1), -1);
    CHECK_EQUAL(freeNotifsMsgBuf(NULL, 3), 0);

    /* The engine is the parent's; the child gets errors and may end as it likes. */
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        refuse_handle(engine);
        end_child();
    }
    int ended = -1;
    CHECK_EQUAL(waitpid(child, &ended, 0), child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);

    destroyTransferEngine(engine);
    destroyTransferEngine(engine);
    refuse_handle(engine);
    puts("done");
    return 0;
}
