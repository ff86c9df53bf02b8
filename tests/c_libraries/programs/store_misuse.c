/* Calls that are wrong in every way the library can detect: each answers an error. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "store_c.h"

static char memory[256];

static void refuse(mooncake_store_t store, int code) {
    const char *keys[1] = {"key"};
    void *buffers[1] = {memory};
    size_t sizes[1] = {sizeof(memory)};
    int results[1];
    int64_t counts[1];
    CHECK_EQUAL(mooncake_store_put(store, "key", memory, 8, NULL), code);
    CHECK_EQUAL(mooncake_store_put_from(store, "key", memory, 8, NULL), code);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, sizes, 1, NULL, results), code);
    CHECK_EQUAL(mooncake_store_get_into(store, "key", memory, 8), code);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, keys, buffers, sizes, 1, counts), code);
    CHECK_EQUAL(mooncake_store_is_exist(store, "key"), code);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, 1, results), code);
    CHECK_EQUAL(mooncake_store_get_size(store, "key"), code);
    CHECK_EQUAL(mooncake_store_get_hostname(store, memory, sizeof(memory)), code);
    CHECK_EQUAL(mooncake_store_remove(store, "key", 0), code);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, "key", 0), code);
    CHECK_EQUAL(mooncake_store_remove_all(store, 0), code);
    CHECK_EQUAL(mooncake_store_register_buffer(store, memory, 8), code);
    CHECK_EQUAL(mooncake_store_unregister_buffer(store, memory), code);
}

static void refuse_handle(mooncake_store_t store) {
    refuse(store, -1);
    CHECK_EQUAL(mooncake_store_health_check(store), -1);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 0, NULL, NULL, NULL), -1);
    CHECK_EQUAL(mooncake_store_init_all(store, NULL, NULL, 0), -1);
    mooncake_store_destroy(store);
}

int main(int argc, char **argv) {
    CHECK_EQUAL(argc, 2);
    refuse_handle(NULL);
    refuse_handle(memory);
    mooncake_store_t store = mooncake_store_create();
    CHECK(store != NULL);
    refuse(store, MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 0, "pigeon", NULL, argv[1]),
                MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 0, NULL, NULL, "127.0.0.1:1"),
                MOONCAKE_STORE_NO_MASTER);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 16 << 20, NULL, NULL, argv[1]), 0);
    CHECK_EQUAL(mooncake_store_setup(store, "127.0.0.1", NULL, 0, 16 << 20, NULL, NULL, argv[1]),
                -1010);

    const char *keys[2] = {"key", NULL};
    void *buffers[2] = {memory, NULL};
    size_t sizes[2] = {8, 8};
    int results[2];
    int64_t counts[2];
    CHECK_EQUAL(mooncake_store_put(store, NULL, memory, 8, NULL), -1);
    CHECK_EQUAL(mooncake_store_put(store, "key", NULL, 8, NULL), -1);
    CHECK_EQUAL(mooncake_store_put(store, "key", NULL, 0, NULL), MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_put(store, "", memory, 8, NULL), MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_put(store, "\xff", memory, 8, NULL), -1);
    CHECK(mooncake_store_put(store, "key", memory, SIZE_MAX, NULL) < 0);
    mooncake_replicate_config_t none = {0, 0, 0, NULL, 0}, many = {1, 0, 0, keys, SIZE_MAX};
    CHECK(mooncake_store_put(store, "key", memory, 8, &none) < 0);
    CHECK(mooncake_store_put(store, "key", memory, 8, &many) < 0);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, sizes, 2, NULL, results), -1);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, NULL, buffers, sizes, 2, NULL, results), -1);
    CHECK_EQUAL(mooncake_store_batch_put_from(store, keys, buffers, sizes, 1, NULL, NULL), -1);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, keys, buffers, sizes, 2, counts), -1);
    CHECK_EQUAL(mooncake_store_batch_get_into(store, keys, NULL, sizes, 1, counts), -1);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, 2, results), -1);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, keys, SIZE_MAX, results), -1);
    CHECK_EQUAL(mooncake_store_batch_is_exist(store, NULL, 0, NULL), 0);
    CHECK_EQUAL(mooncake_store_is_exist(store, NULL), -1);
    CHECK_EQUAL(mooncake_store_get_size(store, NULL), -1);
    CHECK_EQUAL(mooncake_store_get_into(store, "key", NULL, 8), -1);
    CHECK_EQUAL(mooncake_store_get_hostname(store, memory, 3), -1);
    CHECK_EQUAL(mooncake_store_get_hostname(store, NULL, 3), -1);
    CHECK_EQUAL(mooncake_store_remove(store, NULL, 0), -1);
    CHECK_EQUAL(mooncake_store_remove_by_regex(store, NULL, 0), -1);
    CHECK_EQUAL(mooncake_store_register_buffer(store, NULL, 8), -1);
    CHECK_EQUAL(mooncake_store_register_buffer(store, memory, 0), -1);
    CHECK(mooncake_store_register_buffer(store, (void *)4096, 8) < 0);

    /* Addresses that are not this process's, to read and to write. */
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(closed != MAP_FAILED);
    CHECK_EQUAL(mooncake_store_put_from(store, "key", closed, 8, NULL),
                MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_put(store, "key", memory, 8, NULL), 0);
    CHECK_EQUAL(mooncake_store_get_into(store, "key", closed, 8), MOONCAKE_STORE_INVALID_PARAMS);
    CHECK_EQUAL(mooncake_store_get_into(store, "key", memory, 8), 8);
    munmap(closed, 4096);

    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        refuse_handle(store);
        end_child();
    }
    int ended = -1;
    CHECK_EQUAL(waitpid(child, &ended, 0), child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);

    CHECK_EQUAL(mooncake_store_health_check(store), 0);
    mooncake_store_destroy(store);
    mooncake_store_destroy(store);
    refuse_handle(store);
    puts("done");
    return 0;
}
