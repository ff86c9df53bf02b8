/*
 * The transfer engine for C: libtransfer_engine.so.
 *
 * An engine moves bytes between registered memory of processes, on one host or on several. Names,
 * types, layouts and codes are those of Mooncake's header of this name.
 *
 * All functions may be called from several threads at once. No call waits for ever: transfers have
 * a deadline (MC_TRANSFER_TIMEOUT), and so has every other wait. Texts end with 0 and are UTF-8;
 * they and all structures are read during the call only. Each failed call writes a line with the
 * reason to the standard error (PERIGEE_LOG=off is silent, =info says more).
 *
 * A null pointer and a handle that was freed, is foreign, or was made before fork() are errors, not
 * crashes. An engine ends with destroyTransferEngine(), or when the process exits.
 *
 * Calls answer in one of two ways, as each says:
 *   code    0, or a negative number of the ENGINE_ list;
 *   status  0, or the same number without its sign (999 for what is not built).
 */
#ifndef TRANSFER_ENGINE_C
#define TRANSFER_ENGINE_C

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define segment_handle_t int32_t
#define segment_id_t int32_t
#define batch_id_t uint64_t

/* The engine's own memory as a target. */
#define LOCAL_SEGMENT (0)
/* What allocateBatchID() answers when it fails. */
#define INVALID_BATCH UINT64_MAX

/* Codes of failures. */
#define ENGINE_INVALID_ARGUMENT (-1)  /* an argument, a handle, or a defect */
#define ENGINE_TOO_MANY (-2)          /* more requests, batches or buffers than fit */
#define ENGINE_NOT_REGISTERED (-3)    /* no memory is registered at that address */
#define ENGINE_BUSY (-4)              /* still under way, or memory still in use */
#define ENGINE_NO_DEVICE (-6)         /* RDMA is required and no device works */
#define ENGINE_OVERLAP (-7)           /* part of the memory is registered already */
#define ENGINE_NO_ADDRESS (-101)      /* the peer's host name does not resolve */
#define ENGINE_UNREACHABLE (-102)     /* the peer does not answer or broke off */
#define ENGINE_REFUSED (-104)         /* the peer's handshake said no */
#define ENGINE_METADATA (-200)        /* the metadata server did not answer, or lacks the name */
#define ENGINE_NO_MEMORY (-302)       /* this process gets no more memory */
#define ENGINE_NOT_BUILT (-303)       /* this library cannot do it */

#define OPCODE_READ (0)  /* from the target to this process */
#define OPCODE_WRITE (1) /* from this process to the target */

/* One contiguous transfer. */
struct transfer_request {
    int opcode;             /* OPCODE_READ or OPCODE_WRITE */
    void *source;           /* memory of this process, valid until the request is final */
    segment_id_t target_id; /* what openSegment() answered, or LOCAL_SEGMENT */
    uint64_t target_offset; /* address in the process that owns the segment */
    uint64_t length;        /* bytes; 0 is completed at once */
};
typedef struct transfer_request transfer_request_t;

/* A message of two texts. */
struct notify_msg {
    char *name;
    char *msg;
};
typedef struct notify_msg notify_msg_t;

/* How far a request is. All but the first two are final: the memory is not touched any more. */
#define STATUS_WAITING (0)   /* not begun */
#define STATUS_PENDING (1)   /* under way */
#define STATUS_INVALID (2)   /* some of its memory is not registered, or cannot be written */
#define STATUS_CANCELED (3)  /* taken back */
#define STATUS_COMPLETED (4) /* all bytes are in place */
#define STATUS_TIMEOUT (5)   /* the deadline passed */
#define STATUS_FAILED (6)    /* the bytes did not move */

struct transfer_status {
    int status;                 /* one of the above */
    uint64_t transferred_bytes; /* bytes in place */
};
typedef struct transfer_status transfer_status_t;

/* What a segment can be. No function takes or gives it; it is here for programs that name it. */
struct segment_desc {
    int type;
    union {
        struct {
            void *addr;
            uint64_t size;
            const char *location;
        } rdma;
        struct {
            const char *file_path;
            const char *subsystem_name;
            const char *proto;
            const char *ip;
            uint64_t port;
        } nvmeof;
    } desc_;
};
typedef struct segment_desc segment_desc_t;

/* Memory to register. */
struct buffer_entry {
    void *addr;
    size_t length;
};
typedef struct buffer_entry buffer_entry_t;

/* What is under way over one RDMA NIC. */
struct nic_load_stat {
    char device_name[64];      /* ends with 0 */
    uint64_t inflight_bytes;   /* posted and not completed */
    double ewma_bandwidth_bps; /* measured, in bytes per second */
};
typedef struct nic_load_stat nic_load_stat_t;

typedef void *transfer_engine_t;
typedef void *transport_t;

/* ---- Engines ---- */

/*
 * Starts an engine; NULL if that fails.
 *
 * metadata_conn_string: "P2PHANDSHAKE", "http://host:port/metadata", "etcd://host:port,..." or
 * "redis://host:port". local_server_name: host, host:port or [v6]:port by which peers reach this
 * engine; with a metadata server any name without a blank or slash. ip_or_host_name and rpc_port
 * are not used: an engine finds its address (MC_TCP_BIND_ADDRESS sets it) and chooses a port.
 * auto_discover: not 0 uses RDMA where it works and TCP elsewhere; 0 uses TCP until
 * installTransport() says more.
 */
transfer_engine_t createTransferEngine(const char *metadata_conn_string,
                                       const char *local_server_name, const char *ip_or_host_name,
                                       uint64_t rpc_port, int auto_discover);

/* Ends an engine: batches in flight fail, its memory is forgotten, its name is withdrawn. Calls
 * that other threads are in still end; the engine goes with the last of them. */
void destroyTransferEngine(transfer_engine_t engine);

/* Ends all engines on SIGINT and SIGTERM, then the process, with exit code 128 + signal. A signal
 * that the program handles stays the program's: a line in the log says so. */
void enableGracefulShutdown(transfer_engine_t engine);

/* Code. NICs are looked up when an engine starts, so there is nothing left to do. */
int discoverTopology(transfer_engine_t engine);

/* Code. Writes host:port of the engine's handshake with its end, or nothing if the buffer is too
 * small. With P2PHANDSHAKE that is the name that peers pass to openSegment(). */
int getLocalIpAndPort(transfer_engine_t engine, char *buf_out, size_t buf_len);

/*
 * Has the engine speak "tcp" or "rdma"; anything but NULL is success. Where no RDMA device works,
 * TCP takes its place, unless PERIGEE_REQUIRE_RDMA=1. args: NULL, or args[0] is NULL or a matrix of
 * NICs as JSON, {"cpu:0": [["preferred"], ["others"]], ...}. Transports must be installed before
 * memory is registered and segments are opened; an engine with auto_discover has all of them.
 */
transport_t installTransport(transfer_engine_t engine, const char *proto, void **args);

/* Code. Transports end with their engine, so a known word is answered with 0. */
int uninstallTransport(transfer_engine_t engine, const char *proto);

/* ---- Segments ---- */

/* The number of a peer's segment, LOCAL_SEGMENT for the engine's own name, or -1 if the peer cannot
 * be found. Slashes before the name do not count. A name keeps its number. */
segment_id_t openSegment(transfer_engine_t engine, const char *segment_name);

/* As openSegment(), but asks again where the peer is. */
segment_id_t openSegmentNoCache(transfer_engine_t engine, const char *segment_name);

/* Code. The number stays open: other parts of a program may have opened the same name. */
int closeSegment(transfer_engine_t engine, segment_id_t segment_id);

/* Code. Takes the number of a peer's name back. The engine's own name is refused. */
int removeLocalSegment(transfer_engine_t engine, const char *segment_name);

/* Code. Transfers ask again where peers are. */
int syncSegmentCache(transfer_engine_t engine);

/* Code. Connections need no warming up here. */
int warmupEfaSegment(transfer_engine_t engine, const char *segment_name);

/* ---- Memory ---- */

/*
 * Code. Lets peers read and write memory, which must stay valid until it is unregistered or the
 * engine is destroyed. location: "cpu:N", "cuda:N", or NULL or "*" to find it out.
 * remote_accessible: 0 makes it known to this engine's NICs only; no peer reaches it.
 */
int registerLocalMemory(transfer_engine_t engine, void *addr, size_t length, const char *location,
                        int remote_accessible);

/* Code. Waits for transfers that use the memory, 40 s at most; then ENGINE_BUSY: keep the memory
 * and call again. */
int unregisterLocalMemory(transfer_engine_t engine, void *addr);

/* Code. Registers all ranges, or none. */
int registerLocalMemoryBatch(transfer_engine_t engine, buffer_entry_t *buffer_list,
                             size_t buffer_len, const char *location);

/* Code. Unregisters all ranges; the first failure is answered, the others are done all the same. */
int unregisterLocalMemoryBatch(transfer_engine_t engine, void **addr_list, size_t addr_len);

/* ---- Transfers ---- */

/* A batch with room for so many requests, or INVALID_BATCH. */
batch_id_t allocateBatchID(transfer_engine_t engine, size_t batch_size);

/* Status. Submits requests, to one target or several; they are numbered on from those before. After
 * a failure none of this call is under way. */
int submitTransfer(transfer_engine_t engine, batch_id_t batch_id, struct transfer_request *entries,
                   size_t count);

/* Status. As submitTransfer(). The call of getTransferStatus() or freeBatchID() that finds every
 * request of the batch completed sends the message to the target of entries[0]. */
int submitTransferWithNotify(transfer_engine_t engine, batch_id_t batch_id,
                             struct transfer_request *entries, size_t count,
                             notify_msg_t notify_msg);

/* Status. How far request number task_id of the batch is, counted from 0. */
int getTransferStatus(transfer_engine_t engine, batch_id_t batch_id, size_t task_id,
                      struct transfer_status *status);

/* Status. Frees a batch; 4 while a request is under way. */
int freeBatchID(transfer_engine_t engine, batch_id_t batch_id);

/* ---- Messages ---- */

/* The messages that have arrived, oldest first, and in *size how many; NULL for none. */
notify_msg_t *getNotifsFromEngine(transfer_engine_t engine, int *size);

/* Code. Frees what getNotifsFromEngine() answered, once. */
int freeNotifsMsgBuf(notify_msg_t *msg, int size);

/* Code. Sends a message to the owner of a segment and waits until it is there. */
int genNotifyInEngine(transfer_engine_t engine, uint64_t target_id, notify_msg_t notify_msg);

/* ---- Reports ---- */

/* 0 or -1. *count: room in stats before, number of RDMA NICs after, which may be more. */
int getNicLoadStats(transfer_engine_t engine, nic_load_stat_t *stats, size_t *count);

/* 0 or -1. Writes what the engine can reach peers over: lines, or if json is not 0 an object with
 * local_nics and topology. A buffer that is too small gets nothing. */
int showLinks(transfer_engine_t engine, char *buf_out, size_t buf_len, int json);

#ifdef __cplusplus
}
#endif

#endif /* TRANSFER_ENGINE_C */
