/* Lends memory of this process and holds an object in it: MASTER. Ends without destroying it. */
#include "check.h"
#include "store_c.h"

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    CHECK_EQUAL(setenv("MOONCAKE_MASTER", argv[1], 1), 0);
    mooncake_store_t store = mooncake_store_create();
    CHECK_EQUAL(mooncake_store_init_all(store, NULL, NULL, 64 << 20), 0);
    char name[64], object[4096], back[4096];
    CHECK_EQUAL(mooncake_store_get_hostname(store, name, sizeof(name)), 0);
    const char *here[1] = {name};
    mooncake_replicate_config_t config = {1, 0, 0, here, 1};
    for (size_t i = 0; i < sizeof(object); i++) object[i] = (char)pattern(i);
    CHECK_EQUAL(mooncake_store_put(store, "lent", object, sizeof(object), &config), 0);
    CHECK_EQUAL(mooncake_store_get_into(store, "lent", back, sizeof(back)), sizeof(back));
    CHECK(memcmp(object, back, sizeof(back)) == 0);
    puts("done");
    return 0;
}
