package mooncakestore

/*
#include <store_c.h>

static inline void *get_address(uintptr_t number) { return (void *)number; }
*/
import "C"

// GetInto reads an object into memory at ptr, and answers its bytes.
func (s *Store) GetInto(key string, ptr uintptr, size uint64) (int64, error) {
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	name, err := newText(key)
	if err != nil {
		return 0, err
	}
	defer freeText(name)
	count := C.mooncake_store_get_into(store, name, C.get_address(C.uintptr_t(ptr)), C.size_t(size))
	return counted(ErrGet, int64(count))
}

// Get reads an object into buf, and answers its bytes.
func (s *Store) Get(key string, buf []byte) (int64, error) {
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	if len(buf) == 0 {
		return 0, ErrInvalidArgument
	}
	name, err := newText(key)
	if err != nil {
		return 0, err
	}
	defer freeText(name)
	count := C.mooncake_store_get_into(store, name, address(buf), C.size_t(len(buf)))
	return counted(ErrGet, int64(count))
}

// BatchGetInto reads several objects; bytes or a negative code for each.
func (s *Store) BatchGetInto(keys []string, ptrs []uintptr, sizes []uint64) ([]int64, error) {
	store, err := s.open()
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if len(ptrs) != len(keys) || len(sizes) != len(keys) {
		return nil, ErrInvalidArgument
	}
	names, err := newWords(keys)
	if err != nil {
		return nil, err
	}
	defer names.free()
	results := make([]C.int64_t, len(keys))
	buffers, lengths := newPieces(ptrs, sizes).first()
	code := C.mooncake_store_batch_get_into(store, names.array, buffers, lengths,
		C.size_t(len(keys)), &results[0])
	if code != 0 {
		return nil, verdict(ErrBatchOp, int(code))
	}
	read := make([]int64, len(keys))
	for index, result := range results {
		read[index] = int64(result)
	}
	return read, nil
}

// counted is a count, or the error that a negative one is.
func counted(call error, count int64) (int64, error) {
	if count < 0 {
		return 0, verdict(call, int(count))
	}
	return count, nil
}
