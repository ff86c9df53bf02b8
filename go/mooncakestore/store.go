// Package mooncakestore puts objects into the memory of a cluster and gets them from there. It is
// Mooncake's Go package on Perigee's libmooncake_store.so: same names, so that programs compile
// without a change.
//
// All methods may be called from several goroutines at once, and none waits for ever. Memory of a
// []byte is used during the call only. What a uintptr names must be memory that Go does not own,
// such as a hostmemory.Buffer.
package mooncakestore

/*
#include <store_c.h>

static inline mooncake_store_t store_of(uintptr_t number) { return (mooncake_store_t)number; }

static inline void *store_address(uintptr_t number) { return (void *)number; }

static inline uintptr_t store_new(void) { return (uintptr_t)mooncake_store_create(); }
*/
import "C"

import (
	"sync/atomic"
	"unsafe"
)

// Store is a client of a cluster.
type Store struct {
	// Number of the library's handle, 0 once it is closed.
	handle uintptr
}

// New makes a store that is not set up. Setup follows, and Close in the end.
func New() (*Store, error) {
	handle := uintptr(C.store_new())
	if handle == 0 {
		return nil, ErrStoreNil
	}
	return &Store{handle: handle}, nil
}

// open is the handle of a store that is not closed.
func (s *Store) open() (C.mooncake_store_t, error) {
	handle := atomic.LoadUintptr(&s.handle)
	if handle == 0 {
		return nil, ErrStoreNil
	}
	return C.store_of(C.uintptr_t(handle)), nil
}

// Setup joins a cluster.
//
// localHostname is the host, or host:port, by which others reach this process; metadataServer is
// "P2PHANDSHAKE" or a service such as "http://host:8080/metadata"; globalSegmentSize are bytes to
// lend, 0 for none; localBufferSize is 0 to refuse Put; protocol is "tcp" or "rdma"; deviceName
// names RDMA devices, "" for all; masterServerAddr is the master's host:port.
func (s *Store) Setup(localHostname, metadataServer string,
	globalSegmentSize, localBufferSize uint64,
	protocol, deviceName, masterServerAddr string) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	texts, err := newWords([]string{
		localHostname, metadataServer, protocol, deviceName, masterServerAddr,
	})
	if err != nil {
		return err
	}
	defer texts.free()
	code := C.mooncake_store_setup(store, texts.at(0), texts.at(1), C.uint64_t(globalSegmentSize),
		C.uint64_t(localBufferSize), texts.at(2), texts.at(3), texts.at(4))
	return verdict(ErrSetupFailed, int(code))
}

// InitAll joins the cluster of MOONCAKE_MASTER, or of a master on this host, and lends memory.
func (s *Store) InitAll(protocol, deviceName string, mountSegmentSize uint64) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	texts, err := newWords([]string{protocol, deviceName})
	if err != nil {
		return err
	}
	defer texts.free()
	code := C.mooncake_store_init_all(store, texts.at(0), texts.at(1), C.uint64_t(mountSegmentSize))
	return verdict(ErrInitAllFailed, int(code))
}

// HealthCheck is nil if the store is set up and its master answers.
func (s *Store) HealthCheck() error {
	store, err := s.open()
	if err != nil {
		return err
	}
	return verdict(ErrHealthCheck, int(C.mooncake_store_health_check(store)))
}

// Hostname is the host:port by which the cluster knows this store.
func (s *Store) Hostname() (string, error) {
	store, err := s.open()
	if err != nil {
		return "", err
	}
	var name [512]C.char
	code := C.mooncake_store_get_hostname(store, &name[0], C.size_t(len(name)))
	return C.GoString(&name[0]), verdict(ErrHostname, int(code))
}

// Close leaves the cluster. Calls under way end as usual, later ones answer ErrStoreNil.
func (s *Store) Close() {
	if handle := atomic.SwapUintptr(&s.handle, 0); handle != 0 {
		C.mooncake_store_destroy(C.store_of(C.uintptr_t(handle)))
	}
}

// RegisterBuffer makes memory known, so that RDMA devices read and write it in place. It must stay
// until UnregisterBuffer.
func (s *Store) RegisterBuffer(ptr uintptr, size uint64) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	if ptr == 0 || size == 0 {
		return ErrInvalidArgument
	}
	code := C.mooncake_store_register_buffer(store, C.store_address(C.uintptr_t(ptr)), C.size_t(size))
	return verdict(ErrRegisterBuffer, int(code))
}

// UnregisterBuffer forgets registered memory.
func (s *Store) UnregisterBuffer(ptr uintptr) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	code := C.mooncake_store_unregister_buffer(store, C.store_address(C.uintptr_t(ptr)))
	return verdict(ErrUnregisterBuffer, int(code))
}

// address of a slice's first byte; nil if it is empty.
func address(bytes []byte) unsafe.Pointer {
	if len(bytes) == 0 {
		return nil
	}
	return unsafe.Pointer(&bytes[0])
}
