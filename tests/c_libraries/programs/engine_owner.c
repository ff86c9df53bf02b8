/* Registers memory, prints its name and address, and waits until a peer has written and says so. */
#include "check.h"
#include "transfer_engine_c.h"

#define BYTES (4u << 20)

int main(void) {
    transfer_engine_t engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, 0);
    CHECK(engine != NULL);
    CHECK(installTransport(engine, "tcp", NULL) != NULL);
    unsigned char *memory = calloc(1, BYTES), *hidden = calloc(1, 4096);
    CHECK(memory != NULL && hidden != NULL);
    for (size_t i = BYTES / 2; i < BYTES; i++) memory[i] = pattern(i);
    CHECK_EQUAL(registerLocalMemory(engine, memory, BYTES, "cpu:0", 1), 0);
    CHECK_EQUAL(registerLocalMemory(engine, hidden, 4096, NULL, 0), 0);
    char name[128];
    CHECK_EQUAL(getLocalIpAndPort(engine, name, sizeof(name)), 0);
    printf("owner %s %llu %llu\n", name, (unsigned long long)(uintptr_t)memory,
           (unsigned long long)(uintptr_t)hidden);
    fflush(stdout);

    int asked_to_end = 0, written = 0;
    for (time_t end = deadline(); !asked_to_end;) {
        CHECK(time(NULL) < end);
        int count = -1;
        notify_msg_t *messages = getNotifsFromEngine(engine, &count);
        CHECK((messages == NULL) == (count == 0));
        for (int i = 0; i < count; i++) {
            if (strcmp(messages[i].name, "written") == 0) {
                /* It comes after the bytes it speaks of. */
                size_t bytes = strtoul(messages[i].msg, NULL, 10);
                CHECK(bytes > 0 && bytes <= BYTES / 2);
                for (size_t at = 0; at < bytes; at++) CHECK_EQUAL(memory[at], pattern(at));
                written++;
            }
            asked_to_end |= strcmp(messages[i].name, "end") == 0;
        }
        CHECK_EQUAL(freeNotifsMsgBuf(messages, count), 0);
        if (count == 0) pause_a_moment();
    }
    CHECK_EQUAL(written, 1);
    for (size_t i = 0; i < 4096; i++) CHECK_EQUAL(hidden[i], 0);
    CHECK_EQUAL(unregisterLocalMemory(engine, memory), 0);
    CHECK_EQUAL(unregisterLocalMemory(engine, hidden), 0);
    destroyTransferEngine(engine);
    free(memory);
    free(hidden);
    puts("done");
    return 0;
}
