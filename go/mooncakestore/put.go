package mooncakestore

/*
#include <store_c.h>

static inline void *put_address(uintptr_t number) { return (void *)number; }
*/
import "C"

// Put stores the bytes of value. An object that is there already is left as it is.
func (s *Store) Put(key string, value []byte, config *ReplicateConfig) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	placed, err := newPlacement(config)
	if err != nil {
		return err
	}
	defer placed.segments.free()
	name, err := newText(key)
	if err != nil {
		return err
	}
	defer freeText(name)
	code := C.mooncake_store_put(store, name, address(value), C.size_t(len(value)), &placed.config)
	return verdict(ErrPut, int(code))
}

// PutFrom stores size bytes that lie at ptr.
func (s *Store) PutFrom(key string, ptr uintptr, size uint64, config *ReplicateConfig) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	if ptr == 0 || size == 0 {
		return ErrInvalidArgument
	}
	placed, err := newPlacement(config)
	if err != nil {
		return err
	}
	defer placed.segments.free()
	name, err := newText(key)
	if err != nil {
		return err
	}
	defer freeText(name)
	code := C.mooncake_store_put_from(store, name, C.put_address(C.uintptr_t(ptr)), C.size_t(size),
		&placed.config)
	return verdict(ErrPut, int(code))
}

// BatchPutFrom stores several objects; 0 or a negative code for each.
func (s *Store) BatchPutFrom(keys []string, ptrs []uintptr, sizes []uint64,
	config *ReplicateConfig) ([]int, error) {
	store, err := s.open()
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if len(ptrs) != len(keys) || len(sizes) != len(keys) {
		return nil, ErrInvalidArgument
	}
	placed, err := newPlacement(config)
	if err != nil {
		return nil, err
	}
	defer placed.segments.free()
	names, err := newWords(keys)
	if err != nil {
		return nil, err
	}
	defer names.free()
	results := make([]C.int, len(keys))
	buffers, lengths := newPieces(ptrs, sizes).first()
	code := C.mooncake_store_batch_put_from(store, names.array, buffers, lengths,
		C.size_t(len(keys)), &placed.config, &results[0])
	if code != 0 {
		return nil, verdict(ErrBatchOp, int(code))
	}
	stored := make([]int, len(keys))
	for index, result := range results {
		stored[index] = int(result)
	}
	return stored, nil
}
