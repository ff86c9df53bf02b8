/* Two of NIXL's Mooncake back ends move bytes and a message, as NIXL's agent drives them. */
#include "check.h"
#include "mooncake_backend.h"

#include <vector>

namespace {

constexpr size_t kBytes = 1 << 20;

struct Side {
    nixl_b_params_t params;
    nixlBackendInitParams init;
    std::unique_ptr<nixlMooncakeEngine> engine;
    std::vector<unsigned char> memory = std::vector<unsigned char>(kBytes);
    nixlBackendMD *registered = nullptr;

    explicit Side(const std::string &name) {
        init.localAgent = name;
        init.type = "MOONCAKE";
        init.customParams = &params;
        engine = std::make_unique<nixlMooncakeEngine>(&init);
        nixlBlobDesc blob(address(), kBytes, 0, "");
        CHECK_EQUAL(engine->registerMem(blob, DRAM_SEG, registered), NIXL_SUCCESS);
    }

    ~Side() { CHECK_EQUAL(engine->deregisterMem(registered), NIXL_SUCCESS); }

    uintptr_t address() { return reinterpret_cast<uintptr_t>(memory.data()); }

    void load(const std::string &name, Side &other) {
        std::string place;
        CHECK_EQUAL(other.engine->getConnInfo(place), NIXL_SUCCESS);
        CHECK_EQUAL(engine->loadRemoteConnInfo(name, place), NIXL_SUCCESS);
        CHECK_EQUAL(engine->connect(name), NIXL_SUCCESS);
    }

    nixl_meta_dlist_t list() {
        nixl_meta_dlist_t all(DRAM_SEG);
        nixlMetaDesc one(address(), kBytes, 0);
        one.metadataP = nullptr;
        all.addDesc(one);
        return all;
    }

    void move(nixl_xfer_op_t operation, const std::string &name, Side &other, const char *text) {
        nixlBackendReqH *handle = nullptr;
        nixl_opt_b_args_t options;
        options.hasNotif = text != nullptr;
        if (text) options.notifMsg = text;
        auto local = list(), remote = other.list();
        CHECK_EQUAL(engine->prepXfer(operation, local, remote, name, handle, &options), NIXL_SUCCESS);
        CHECK_EQUAL(engine->postXfer(operation, local, remote, name, handle, &options),
                    NIXL_IN_PROG);
        nixl_status_t status;
        for (time_t end = deadline(); (status = engine->checkXfer(handle)) == NIXL_IN_PROG;) {
            CHECK(time(nullptr) < end);
            pause_a_moment();
        }
        CHECK_EQUAL(status, NIXL_SUCCESS);
        CHECK_EQUAL(engine->releaseReqH(handle), NIXL_SUCCESS);
    }

    std::pair<std::string, std::string> message() {
        for (time_t end = deadline();;) {
            notif_list_t all;
            CHECK_EQUAL(engine->getNotifs(all), NIXL_SUCCESS);
            if (!all.empty()) return all.front();
            CHECK(time(nullptr) < end);
            pause_a_moment();
        }
    }
};

}  // namespace

int main() {
    Side here("here"), there("there");
    here.load("there", there);
    there.load("here", here);
    for (size_t i = 0; i < kBytes; i++) here.memory[i] = pattern(i);
    here.move(NIXL_WRITE, "there", there, "written");
    auto [sender, text] = there.message();
    CHECK(sender == "here" && text == "written");
    CHECK(there.memory == here.memory);
    std::fill(here.memory.begin(), here.memory.end(), 0);
    here.move(NIXL_READ, "there", there, nullptr);
    CHECK(there.memory == here.memory);
    CHECK_EQUAL(there.engine->genNotif("here", "thanks"), NIXL_SUCCESS);
    CHECK(here.message().second == "thanks");
    puts("done");
    return 0;
}
