/* What agents of NIXL and TensorRT-LLM call, in their order and with their arguments: two engines of
 * one process, each with an agent's name. */
#include "check.h"
#include "transfer_engine_c.h"

#include <algorithm>
#include <string>
#include <vector>

namespace {

constexpr size_t kRequests = 1024; /* both ask for room for as many, whatever they submit */
constexpr size_t kPieces = 48;
constexpr size_t kPieceBytes = 4096;

struct Agent {
    std::string name;
    transfer_engine_t engine;
    std::vector<unsigned char> memory;
    int peer = -1; /* both keep segments as int */

    explicit Agent(std::string agent) : name(std::move(agent)), memory(kPieces * kPieceBytes) {
        engine = createTransferEngine("P2PHANDSHAKE", "127.0.0.1", "", 0, true);
        CHECK(engine != nullptr);
        CHECK_EQUAL(registerLocalMemory(engine, memory.data(), memory.size(), "*", 1), 0);
    }

    ~Agent() {
        CHECK_EQUAL(unregisterLocalMemory(engine, memory.data()), 0);
        destroyTransferEngine(engine);
    }

    std::string place() const {
        char text[64];
        CHECK_EQUAL(getLocalIpAndPort(engine, text, sizeof(text)), 0);
        return text;
    }

    void open(const Agent &other) {
        auto segment = openSegment(engine, other.place().c_str());
        CHECK(segment >= 0);
        peer = segment;
    }

    std::vector<transfer_request_t> requests(const Agent &other, int opcode) {
        std::vector<transfer_request_t> all(kPieces);
        for (size_t i = 0; i < kPieces; i++) {
            all[i].opcode = opcode;
            all[i].source = memory.data() + i * kPieceBytes;
            all[i].target_offset = reinterpret_cast<uintptr_t>(other.memory.data() + i * kPieceBytes);
            all[i].length = kPieceBytes;
            all[i].target_id = peer;
        }
        return all;
    }

    /* Looks at each request until all are final. */
    void finish(uint64_t batch) {
        for (time_t end = deadline();;) {
            bool under_way = false;
            for (size_t i = 0; i < kPieces; i++) {
                transfer_status_t status;
                CHECK_EQUAL(getTransferStatus(engine, batch, i, &status), 0);
                under_way |= status.status == STATUS_PENDING || status.status == STATUS_WAITING;
                CHECK(under_way || status.status == STATUS_COMPLETED);
            }
            if (!under_way) break;
            CHECK(time(nullptr) < end);
            pause_a_moment();
        }
        CHECK_EQUAL(freeBatchID(engine, batch), 0);
        CHECK_EQUAL(syncSegmentCache(engine), 0);
    }

    /* The text of the next message, which must be from `sender`. */
    std::string receive(const std::string &sender) {
        for (time_t end = deadline();;) {
            int size = 0;
            notify_msg_t *messages = getNotifsFromEngine(engine, &size);
            CHECK(size >= 0);
            std::string text;
            for (int i = 0; i < size; i++) {
                CHECK(sender == messages[i].name);
                CHECK(messages[i].msg != nullptr);
                text += messages[i].msg;
            }
            freeNotifsMsgBuf(messages, size);
            if (size > 0) return text;
            CHECK(time(nullptr) < end);
            pause_a_moment();
        }
    }
};

notify_msg_t message(const std::string &name, const std::string &text) {
    return {const_cast<char *>(name.c_str()), const_cast<char *>(text.c_str())};
}

}  // namespace

int main() {
    Agent prefill("prefill"), decode("decode");
    prefill.open(decode);
    decode.open(prefill);
    for (size_t i = 0; i < prefill.memory.size(); i++) prefill.memory[i] = pattern(i);

    /* A write that ends with a message, as the side that has the cache does it. */
    auto writes = prefill.requests(decode, OPCODE_WRITE);
    uint64_t batch = allocateBatchID(prefill.engine, kRequests);
    CHECK(batch != INVALID_BATCH);
    std::string text = "request 7 is there";
    CHECK_EQUAL(submitTransferWithNotify(prefill.engine, batch, writes.data(), kPieces,
                                         message(prefill.name, text)),
                0);
    prefill.finish(batch);
    CHECK(decode.receive("prefill") == text);
    CHECK(decode.memory == prefill.memory);

    /* A read without one. */
    std::fill(decode.memory.begin(), decode.memory.end(), 0);
    auto reads = decode.requests(prefill, OPCODE_READ);
    batch = allocateBatchID(decode.engine, kRequests);
    CHECK(batch != INVALID_BATCH);
    CHECK_EQUAL(submitTransfer(decode.engine, batch, reads.data(), kPieces), 0);
    decode.finish(batch);
    CHECK(decode.memory == prefill.memory);
    transfer_status_t status;
    CHECK(getTransferStatus(decode.engine, batch, 0, &status) != 0); /* freed: an error, no crash */

    CHECK_EQUAL(genNotifyInEngine(decode.engine, decode.peer, message(decode.name, "thanks")), 0);
    CHECK(prefill.receive("decode") == "thanks");

    /* A handle that is dropped before its end. */
    batch = allocateBatchID(prefill.engine, kRequests);
    CHECK_EQUAL(submitTransfer(prefill.engine, batch, writes.data(), kPieces), 0);
    int freed = freeBatchID(prefill.engine, batch);
    if (freed != 0) prefill.finish(batch);
    puts("done");
    return 0;
}
