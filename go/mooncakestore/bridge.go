package mooncakestore

/*
#cgo pkg-config: mooncake_store
#include <store_c.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// words is an array of texts in memory of C, where an array may hold addresses.
type words struct {
	array **C.char
	count int
}

func newWords(list []string) (words, error) {
	if len(list) == 0 {
		return words{}, nil
	}
	for _, word := range list {
		if err := checkText(word); err != nil {
			return words{}, err
		}
	}
	size := C.size_t(len(list)) * C.size_t(unsafe.Sizeof((*C.char)(nil)))
	array := (**C.char)(C.malloc(size))
	for index, word := range list {
		unsafe.Slice(array, len(list))[index] = C.CString(word)
	}
	return words{array: array, count: len(list)}, nil
}

// at is one of the texts.
func (w words) at(index int) *C.char {
	return unsafe.Slice(w.array, w.count)[index]
}

func (w words) free() {
	for _, word := range unsafe.Slice(w.array, w.count) {
		C.free(unsafe.Pointer(word))
	}
	C.free(unsafe.Pointer(w.array))
}

// newText is a text of C; freeText gives it back.
func newText(word string) (*C.char, error) {
	if err := checkText(word); err != nil {
		return nil, err
	}
	return C.CString(word), nil
}

// checkText refuses a NUL byte, at which a text of C ends: it would name another object.
func checkText(word string) error {
	if strings.IndexByte(word, 0) >= 0 {
		return fmt.Errorf("%w: %q has a NUL byte", ErrInvalidArgument, word)
	}
	return nil
}

func freeText(word *C.char) {
	C.free(unsafe.Pointer(word))
}

// pieces is where the objects of a batch lie.
type pieces struct {
	addresses, sizes []C.size_t
}

func newPieces(ptrs []uintptr, sizes []uint64) pieces {
	made := pieces{make([]C.size_t, len(ptrs)), make([]C.size_t, len(sizes))}
	for index := range ptrs {
		made.addresses[index] = C.size_t(ptrs[index])
		made.sizes[index] = C.size_t(sizes[index])
	}
	return made
}

func (p pieces) first() (*unsafe.Pointer, *C.size_t) {
	return (*unsafe.Pointer)(unsafe.Pointer(&p.addresses[0])), &p.sizes[0]
}

// placement is a config as C lays it out.
type placement struct {
	config   C.mooncake_replicate_config_t
	segments words
}

func newPlacement(config *ReplicateConfig) (placement, error) {
	given := DefaultReplicateConfig()
	if config != nil {
		given = *config
	}
	if given.ReplicaNum <= 0 {
		return placement{}, ErrInvalidArgument
	}
	segments, err := newWords(given.PreferredSegments)
	if err != nil {
		return placement{}, err
	}
	made := placement{segments: segments}
	made.config.replica_num = C.size_t(given.ReplicaNum)
	made.config.with_soft_pin = flag(given.WithSoftPin)
	made.config.with_hard_pin = flag(given.WithHardPin)
	made.config.preferred_segments = made.segments.array
	made.config.preferred_segments_count = C.size_t(made.segments.count)
	return made, nil
}

func flag(is bool) C.int {
	if is {
		return 1
	}
	return 0
}
