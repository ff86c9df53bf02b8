/* Puts and gets objects until it is ended: MASTER. */
#include "check.h"
#include "store_c.h"

#define BYTES 65536

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    mooncake_store_t store = mooncake_store_create();
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 1 << 20, "tcp", "", argv[1]), 0);
    char *page = calloc(1, BYTES);
    CHECK(page != NULL);
    for (time_t end = deadline(); time(NULL) < end; pause_a_moment()) {
        CHECK_EQUAL(mooncake_store_put(store, "traffic", page, BYTES, NULL), 0);
        CHECK_EQUAL(mooncake_store_get_into(store, "traffic", page, BYTES), BYTES);
    }
    free(page);
    mooncake_store_destroy(store);
    puts("done");
    return 0;
}
