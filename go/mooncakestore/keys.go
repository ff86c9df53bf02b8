package mooncakestore

// #include <store_c.h>
import "C"

// Exists is whether an object can be read.
func (s *Store) Exists(key string) (bool, error) {
	store, err := s.open()
	if err != nil {
		return false, err
	}
	name, err := newText(key)
	if err != nil {
		return false, err
	}
	defer freeText(name)
	there, err := counted(ErrExist, int64(C.mooncake_store_is_exist(store, name)))
	return there == 1, err
}

// BatchExists is whether each object can be read.
func (s *Store) BatchExists(keys []string) ([]bool, error) {
	store, err := s.open()
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	names, err := newWords(keys)
	if err != nil {
		return nil, err
	}
	defer names.free()
	results := make([]C.int, len(keys))
	code := C.mooncake_store_batch_is_exist(store, names.array, C.size_t(len(keys)), &results[0])
	if code != 0 {
		return nil, verdict(ErrBatchOp, int(code))
	}
	there := make([]bool, len(keys))
	for index, result := range results {
		there[index] = result == 1
	}
	return there, nil
}

// GetSize is the bytes of an object.
func (s *Store) GetSize(key string) (int64, error) {
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	name, err := newText(key)
	if err != nil {
		return 0, err
	}
	defer freeText(name)
	return counted(ErrGetSize, int64(C.mooncake_store_get_size(store, name)))
}

// Remove removes an object; force does not wait for its readers.
func (s *Store) Remove(key string, force bool) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	name, err := newText(key)
	if err != nil {
		return err
	}
	defer freeText(name)
	return verdict(ErrRemove, int(C.mooncake_store_remove(store, name, flag(force))))
}

// RemoveByRegex removes the objects in whose keys pattern is found, and answers how many.
func (s *Store) RemoveByRegex(pattern string, force bool) (int64, error) {
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	name, err := newText(pattern)
	if err != nil {
		return 0, err
	}
	defer freeText(name)
	count := C.mooncake_store_remove_by_regex(store, name, flag(force))
	return counted(ErrRemove, int64(count))
}

// RemoveAll removes all objects, and answers how many.
func (s *Store) RemoveAll(force bool) (int64, error) {
	store, err := s.open()
	if err != nil {
		return 0, err
	}
	return counted(ErrRemove, int64(C.mooncake_store_remove_all(store, flag(force))))
}
