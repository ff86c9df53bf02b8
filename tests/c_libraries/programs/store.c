/* Every call of a store against a cluster: MASTER. */
#include "check.h"
#include "store_c.h"

#define BYTES (3u << 20)
#define OBJECTS 8

static mooncake_store_t joined(const char *master, uint64_t lent) {
    mooncake_store_t store = mooncake_store_create();
    CHECK(store != NULL);
    CHECK_EQUAL(mooncake_store_health_check(store), 1);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", "P2PHANDSHAKE", lent, 16 << 20, "tcp", "",
                                     master),
                0);
    CHECK_EQUAL(mooncake_store_health_check(store), 0);
    return store;
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    mooncake_store_t writer = joined(argv[1], 0), reader = joined(argv[1], 0);
    char name[128];
    CHECK_EQUAL(mooncake_store_get_hostname(writer, name, sizeof(name)), 0);
    CHECK(strchr(name, ':') != NULL);

    unsigned char *bytes = malloc(BYTES), *room = calloc(1, BYTES);
    CHECK(bytes != NULL && room != NULL);
    for (size_t i = 0; i < BYTES; i++) bytes[i] = pattern(i);
    mooncake_replicate_config_t kept = {1, 0, 1, NULL, 0};
    CHECK_EQUAL(mooncake_store_put(writer, "small", bytes, 100, NULL), 0);
    CHECK_EQUAL(mooncake_store_put(writer, "small", bytes + 1, 100, NULL), 0);
    CHECK_EQUAL(mooncake_store_register_buffer(writer, bytes, BYTES), 0);
    CHECK_EQUAL(mooncake_store_put_from(writer, "large", bytes, BYTES, &kept), 0);

    CHECK_EQUAL(mooncake_store_is_exist(reader, "small"), 1);
    CHECK_EQUAL(mooncake_store_is_exist(reader, "absent"), 0);
    CHECK_EQUAL(mooncake_store_get_size(reader, "large"), BYTES);
    CHECK_EQUAL(mooncake_store_get_size(reader, "absent"), MOONCAKE_STORE_NOT_FOUND);
    CHECK_EQUAL(mooncake_store_get_into(reader, "small", room, BYTES), 100);
    CHECK(memcmp(room, bytes, 100) == 0);
    CHECK_EQUAL(mooncake_store_get_into(reader, "large", room, BYTES), BYTES);
    CHECK(memcmp(room, bytes, BYTES) == 0);
    CHECK_EQUAL(mooncake_store_get_into(reader, "large", room, BYTES - 1),
                MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_get_into(reader, "absent", room, BYTES), MOONCAKE_STORE_NOT_FOUND);

    const char *keys[OBJECTS];
    char texts[OBJECTS][16];
    void *sources[OBJECTS], *targets[OBJECTS];
    size_t sizes[OBJECTS];
    int codes[OBJECTS];
    int64_t counts[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++) {
        snprintf(texts[i], sizeof(texts[i]), "batch-%zu", i);
        keys[i] = texts[i];
        sources[i] = bytes + i * 1000;
        targets[i] = room + i * 200000;
        sizes[i] = 1000 + i * 20000;
    }
    sizes[OBJECTS - 1] = 0; /* refused alone */
    const char *preferred[2] = {"127.0.0.1:1", NULL};
    mooncake_replicate_config_t config = {1, 1, 0, preferred, 2};
    CHECK_EQUAL(mooncake_store_batch_put_from(writer, keys, sources, sizes, OBJECTS, &config, codes),
                0);
    for (size_t i = 0; i + 1 < OBJECTS; i++) CHECK_EQUAL(codes[i], 0);
    CHECK_EQUAL(codes[OBJECTS - 1], MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_batch_is_exist(reader, keys, OBJECTS, codes), 0);
    for (size_t i = 0; i < OBJECTS; i++) CHECK_EQUAL(codes[i], i + 1 < OBJECTS);
    memset(room, 0, BYTES);
    sizes[OBJECTS - 1] = 64;
    CHECK_EQUAL(mooncake_store_batch_get_into(reader, keys, targets, sizes, OBJECTS, counts), 0);
    for (size_t i = 0; i + 1 < OBJECTS; i++) {
        CHECK_EQUAL(counts[i], sizes[i]);
        CHECK(memcmp(targets[i], sources[i], sizes[i]) == 0);
    }
    CHECK_EQUAL(counts[OBJECTS - 1], MOONCAKE_STORE_NOT_FOUND);

    CHECK_EQUAL(mooncake_store_remove(writer, "small", 1), 0);
    CHECK_EQUAL(mooncake_store_remove(writer, "small", 1), MOONCAKE_STORE_NOT_FOUND);
    CHECK_EQUAL(mooncake_store_remove_by_regex(writer, "^batch-[0-3]$", 1), 4);
    CHECK_EQUAL(mooncake_store_remove_by_regex(writer, "(", 1), MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_remove_all(writer, 1), OBJECTS - 1 - 4 + 1);
    CHECK_EQUAL(mooncake_store_is_exist(reader, "large"), 0);

    CHECK_EQUAL(mooncake_store_unregister_buffer(writer, bytes), 0);
    CHECK_EQUAL(mooncake_store_unregister_buffer(writer, bytes), MOONCAKE_STORE_INVALID_PARAMS);
    mooncake_store_destroy(writer);
    /* The other one ends with the process. */
    free(bytes);
    free(room);
    puts("done");
    return 0;
}
