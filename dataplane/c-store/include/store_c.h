/*
 * The store client for C: libmooncake_store.so.
 *
 * A store puts objects into the memory of a cluster and gets them from there, and may lend memory
 * of its own. Names, types, layouts and codes are those of Mooncake's header of this name.
 *
 * All functions may be called from several threads at once. No call waits for ever: transfers and
 * calls to the master have deadlines (MC_TRANSFER_TIMEOUT, MC_RPC_TIMEOUT_MS). Texts end with 0 and
 * are UTF-8; they and all structures are read during the call only. A failed set-up writes a line
 * with the reason to the standard error (PERIGEE_LOG=off is silent, =info says more).
 *
 * A null pointer and a handle that was freed, is foreign, or was made before fork() are errors, not
 * crashes; so is an address that this process may not read or write. A store ends with
 * mooncake_store_destroy(), or when the process exits.
 *
 * Calls answer 0, 1 or a count, or a negative code of the list below. All buffers may be memory of
 * this host or of a GPU.
 */
#ifndef MOONCAKE_STORE_C_H
#define MOONCAKE_STORE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The codes that callers react to; the book has all. */
#define MOONCAKE_STORE_INVALID_ARGUMENT (-1)   /* NULL, a handle, a text, or a defect */
#define MOONCAKE_STORE_NO_SPACE (-200)         /* no segment has room */
#define MOONCAKE_STORE_INVALID_PARAMS (-600)   /* not set up, or a value that makes no sense */
#define MOONCAKE_STORE_NOT_FOUND (-704)        /* no such object */
#define MOONCAKE_STORE_HAS_LEASE (-706)        /* it is being read: not removed */
#define MOONCAKE_STORE_TRANSFER_FAILED (-800)  /* the bytes did not move */
#define MOONCAKE_STORE_NO_MASTER (-900)        /* the master or a node does not answer */
#define MOONCAKE_STORE_TIMEOUT (-901)          /* not within the deadline */
#define MOONCAKE_STORE_OVER_QUOTA (-1700)      /* the tenant's quota is used up */
#define MOONCAKE_STORE_UNKNOWN_TENANT (-1701)  /* the tenant has no quota */

typedef void *mooncake_store_t;

/* How objects are placed and kept. NULL in its place means one copy and no pin. */
struct mooncake_replicate_config {
    size_t replica_num;                  /* copies on distinct segments, 1 or more */
    int with_soft_pin;                   /* not 0: evicted only when nothing else is left */
    int with_hard_pin;                   /* not 0: never evicted */
    const char **preferred_segments;     /* names "host:port", tried in order; NULL for none */
    size_t preferred_segments_count;     /* how many; NULL among them is left out */
};
typedef struct mooncake_replicate_config mooncake_replicate_config_t;

/* ---- Life cycle ---- */

/* A store that is not set up; NULL if that fails. */
mooncake_store_t mooncake_store_create(void);

/* Leaves the cluster and ends the store. Calls that other threads are in still end; the store goes
 * with the last of them. NULL is left alone. */
void mooncake_store_destroy(mooncake_store_t store);

/*
 * Joins a cluster, once.
 *
 * local_hostname: host or host:port by which peers reach this process; NULL for "localhost", which
 * stands for the address towards the master. metadata_server: "P2PHANDSHAKE" (NULL is the same),
 * "http://host:port/metadata", "etcd://host:port" or "redis://host:port". global_segment_size:
 * bytes of memory to lend, 0 for none. local_buffer_size: 0 refuses mooncake_store_put(). protocol:
 * "tcp" (NULL is the same) or "rdma". device_name: RDMA devices with commas, NULL or "" for all.
 * master_server_addr: host:port, NULL for 127.0.0.1:50051. The tenant is that of
 * MOONCAKE_TENANT_ID.
 *
 * Answers 0, -600, -900, or -1010 if the store is set up already.
 */
int mooncake_store_setup(mooncake_store_t store, const char *local_hostname,
                         const char *metadata_server, uint64_t global_segment_size,
                         uint64_t local_buffer_size, const char *protocol, const char *device_name,
                         const char *master_server_addr);

/* As mooncake_store_setup() with one host's defaults, for tests. The master is that of
 * MOONCAKE_MASTER, else 127.0.0.1:50051. */
int mooncake_store_init_all(mooncake_store_t store, const char *protocol, const char *device_name,
                            uint64_t mount_segment_size);

/* 0 healthy, 1 not set up, 2 the master does not answer. */
int mooncake_store_health_check(mooncake_store_t store);

/* ---- Put ---- */

/* Stores `size` bytes at `value`. 0 also when the key exists: the old bytes stay. An object has at
 * least one byte. */
int mooncake_store_put(mooncake_store_t store, const char *key, const void *value, size_t size,
                       const mooncake_replicate_config_t *config);

/* The same, also of a store with local_buffer_size 0. Registered memory is moved in place. */
int mooncake_store_put_from(mooncake_store_t store, const char *key, void *buffer, size_t size,
                            const mooncake_replicate_config_t *config);

/* Stores `count` objects. 0 if results_out has a code per key, else -1 and nothing is stored. */
int mooncake_store_batch_put_from(mooncake_store_t store, const char **keys, void **buffers,
                                  const size_t *sizes, size_t count,
                                  const mooncake_replicate_config_t *config, int *results_out);

/* ---- Get ---- */

/* Reads an object; its bytes, or a code: -704 for a miss, -600 if it is larger than `size`. */
int64_t mooncake_store_get_into(mooncake_store_t store, const char *key, void *buffer, size_t size);

/* Reads `count` objects. 0 if results_out has bytes or a code per key, else -1. */
int mooncake_store_batch_get_into(mooncake_store_t store, const char **keys, void **buffers,
                                  const size_t *sizes, size_t count, int64_t *results_out);

/* ---- Ask ---- */

/* 1 it exists, 0 it does not, or a code. */
int mooncake_store_is_exist(mooncake_store_t store, const char *key);

/* Asks about `count` keys. 0 if results_out has 1, 0 or a code per key, else -1. */
int mooncake_store_batch_is_exist(mooncake_store_t store, const char **keys, size_t count,
                                  int *results_out);

/* The bytes of an object, or a code. */
int64_t mooncake_store_get_size(mooncake_store_t store, const char *key);

/* Writes host:port by which the cluster knows this store, with its end. -1 if the buffer is too
 * small. */
int mooncake_store_get_hostname(mooncake_store_t store, char *buf_out, size_t buf_len);

/* ---- Remove ---- */

/* 0, -704 unknown, -706 while it is being read unless `force` is not 0. */
int mooncake_store_remove(mooncake_store_t store, const char *key, int force);

/* Removes the objects in whose key the pattern is found; how many, or a code. Patterns have no
 * backreferences and no look-around. */
int64_t mooncake_store_remove_by_regex(mooncake_store_t store, const char *pattern, int force);

/* Removes all objects that are not being read, or all if `force` is not 0; how many, or a code. */
int64_t mooncake_store_remove_all(mooncake_store_t store, int force);

/* ---- Memory ---- */

/* Makes memory known, so that it is checked once and devices move it in place. It must stay valid
 * until it is unregistered or the store is destroyed. */
int mooncake_store_register_buffer(mooncake_store_t store, void *buffer, size_t size);

/* Forgets registered memory. */
int mooncake_store_unregister_buffer(mooncake_store_t store, void *buffer);

#ifdef __cplusplus
}
#endif

#endif /* MOONCAKE_STORE_C_H */
