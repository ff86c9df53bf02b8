/* Writes to and reads from memory of engine_owner: NAME ADDRESS HIDDEN. */
#include "check.h"
#include "transfer_engine_c.h"

#define BYTES (4u << 20)
#define PIECES 64

static int await(transfer_engine_t engine, batch_id_t batch, size_t task, uint64_t *bytes) {
    for (time_t end = deadline();;) {
        transfer_status_t status = {-1, 0};
        CHECK_EQUAL(getTransferStatus(engine, batch, task, &status), 0);
        *bytes = status.transferred_bytes;
        if (status.status != STATUS_WAITING && status.status != STATUS_PENDING)
            return status.status;
        CHECK(time(NULL) < end);
        pause_a_moment();
    }
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 4);
    uint64_t remote = strtoull(argv[2], NULL, 10), hidden = strtoull(argv[3], NULL, 10);
    transfer_engine_t engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", NULL, 0, 1);
    CHECK(engine != NULL);
    CHECK_EQUAL(discoverTopology(engine), 0);
    unsigned char *memory = malloc(BYTES);
    CHECK(memory != NULL);
    for (size_t i = 0; i < BYTES; i++) memory[i] = i < BYTES / 2 ? pattern(i) : 0;
    buffer_entry_t halves[2] = {{memory, BYTES / 2}, {memory + BYTES / 2, BYTES / 2}};
    CHECK_EQUAL(registerLocalMemoryBatch(engine, halves, 2, "*"), 0);
    CHECK_EQUAL(registerLocalMemory(engine, memory + 10, 10, "*", 1), ENGINE_OVERLAP);

    segment_id_t owner = openSegment(engine, argv[1]);
    CHECK(owner > 0);
    CHECK_EQUAL(openSegment(engine, argv[1]), owner);
    CHECK_EQUAL(openSegmentNoCache(engine, argv[1]), owner);
    CHECK_EQUAL(openSegment(engine, "127.0.0.1:1"), -1);

    /* Half of the pieces in each of two calls; the message goes out once all are there. */
    struct transfer_request pieces[PIECES];
    size_t step = BYTES / 2 / PIECES;
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct transfer_request){OPCODE_WRITE, memory + i * step, owner,
                                              remote + i * step, step};
    batch_id_t batch = allocateBatchID(engine, PIECES);
    CHECK(batch != INVALID_BATCH);
    char bytes[32];
    snprintf(bytes, sizeof(bytes), "%u", BYTES / 2);
    notify_msg_t message = {"written", bytes};
    CHECK_EQUAL(submitTransfer(engine, batch, pieces, PIECES / 2), 0);
    CHECK_EQUAL(submitTransferWithNotify(engine, batch, pieces + PIECES / 2, PIECES / 2, message),
                0);
    CHECK_EQUAL(submitTransfer(engine, batch, pieces, 1), -ENGINE_TOO_MANY);
    uint64_t moved = 0;
    for (size_t i = 0; i < PIECES; i++) {
        CHECK_EQUAL(await(engine, batch, i, &moved), STATUS_COMPLETED);
        CHECK_EQUAL(moved, step);
    }
    CHECK_EQUAL(freeBatchID(engine, batch), 0);

    /* Several targets in one call: the owner, and this engine itself. */
    struct transfer_request both[3] = {
        {OPCODE_READ, memory + BYTES / 2, owner, remote + BYTES / 2, BYTES / 4},
        {OPCODE_WRITE, memory, LOCAL_SEGMENT, (uintptr_t)memory + BYTES - 4096, 4096},
        {OPCODE_READ, memory + BYTES / 2 + BYTES / 4, owner, remote + BYTES / 2 + BYTES / 4,
         BYTES / 8},
    };
    batch = allocateBatchID(engine, 3);
    CHECK_EQUAL(submitTransfer(engine, batch, both, 3), 0);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQUAL(await(engine, batch, i, &moved), STATUS_COMPLETED);
        CHECK_EQUAL(moved, both[i].length);
    }
    CHECK_EQUAL(freeBatchID(engine, batch), 0);
    size_t read = BYTES / 2 + BYTES / 4 + BYTES / 8;
    for (size_t i = BYTES / 2; i < read; i++) CHECK_EQUAL(memory[i], pattern(i));
    for (size_t i = 0; i < 4096; i++) CHECK_EQUAL(memory[BYTES - 4096 + i], pattern(i));

    /* What the owner keeps to itself, and what nothing has. */
    struct transfer_request wrong[2] = {{OPCODE_WRITE, memory, owner, hidden, 64},
                                        {OPCODE_READ, memory, owner, 4096, 64}};
    batch = allocateBatchID(engine, 2);
    CHECK_EQUAL(submitTransfer(engine, batch, wrong, 2), 0);
    for (size_t i = 0; i < 2; i++) CHECK_EQUAL(await(engine, batch, i, &moved), STATUS_INVALID);
    CHECK_EQUAL(freeBatchID(engine, batch), 0);

    char links[1 << 16];
    CHECK_EQUAL(showLinks(engine, links, sizeof(links), 1), 0);
    CHECK(strstr(links, "local_nics") != NULL);
    CHECK_EQUAL(showLinks(engine, links, sizeof(links), 0), 0);
    CHECK(strstr(links, "Local NICs") != NULL);
    nic_load_stat_t loads[4];
    size_t count = 4;
    CHECK_EQUAL(getNicLoadStats(engine, loads, &count), 0);

    CHECK_EQUAL(warmupEfaSegment(engine, argv[1]), 0);
    CHECK_EQUAL(syncSegmentCache(engine), 0);
    notify_msg_t end = {"end", ""};
    // The owner ends when it has the message, possibly before its answer is here.
    (void)genNotifyInEngine(engine, (uint64_t)owner, end);
    CHECK_EQUAL(closeSegment(engine, owner), 0);
    CHECK_EQUAL(removeLocalSegment(engine, argv[1]), 0);
    CHECK_EQUAL(closeSegment(engine, owner), ENGINE_INVALID_ARGUMENT);
    void *addresses[2] = {memory, memory + BYTES / 2};
    CHECK_EQUAL(unregisterLocalMemoryBatch(engine, addresses, 2), 0);
    CHECK_EQUAL(uninstallTransport(engine, "tcp"), 0);
    destroyTransferEngine(engine);
    free(memory);
    puts("done");
    return 0;
}
